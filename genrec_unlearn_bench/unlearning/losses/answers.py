"""FLAT's "good answers" as items.

FLAT (arXiv 2410.11143) draws from a hundred ways to say "I don't know". A recommender has no such sentence: its answer
must be an item in the trie that is not to be forgotten.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.losses.positives import positive_set
from genrec_unlearn_bench.unlearning.request import ForgetRequest

AnswerKind = Literal["popular", "random", "nearest"]

POOL = 100
"""Number of most popular items: as many as FLAT has template answers."""


class Answers:
    """Sampler of one answer per example and step, with its own generator.

    ``popular``: one of the ``POOL`` retain items with the most retain train interactions. ``random``: any retain item.
    ``nearest``: one of the ``neighbours`` items of P(i), or of the popular pool if P(i) is empty. An example's own
    target is never its answer (in interaction requests it may be in the pool): the pool's next item is used.
    """

    def __init__(
        self, kind: AnswerKind, recommender: Recommender, request: ForgetRequest, *, neighbours: int = 5
    ) -> None:
        blocked = recommender.serving.blocked
        allowed = ~request.items if blocked is None else ~request.items & ~blocked
        counts = np.bincount(request.train.retain.targets, minlength=len(allowed))
        ranked = np.argsort(-counts, kind="stable")
        ranked = ranked[allowed[ranked]].astype(np.int64)
        self.pool: IntArray = ranked if kind == "random" else ranked[:POOL]
        """Items to draw from, most popular first."""
        if len(self.pool) < 2:
            raise BenchError("fewer than two items are left to give as good answers")
        self._near: IntArray | None = None
        if kind == "nearest":
            distinct = np.unique(request.train.forget.targets)
            self._row = np.full(len(allowed), -1, dtype=np.int64)
            self._row[distinct] = np.arange(len(distinct))
            self._near = positive_set(request.features, recommender.sids, distinct, ~allowed, neighbours)
        self._generator = numpy_generator(request.seed, "answers", kind)

    def draw(self, targets: IntArray) -> IntArray:
        """[n] an answer for each forget target [n], never the target itself."""
        place = self._generator.integers(len(self.pool), size=len(targets))
        answers = self.pool[place]
        answers = np.where(answers == targets, self.pool[(place + 1) % len(self.pool)], answers)
        if self._near is None:
            return answers
        near = self._near[self._row[targets]]
        found = (near >= 0).sum(axis=1)
        chosen = near[np.arange(len(near)), self._generator.integers(np.maximum(found, 1))]
        return np.where(found > 0, chosen, answers)
