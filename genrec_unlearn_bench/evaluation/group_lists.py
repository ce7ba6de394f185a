"""Decodes every test group once per beam; all measurements share these lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.backbones.recommender import Ranker, Recommender, length_batches
from genrec_unlearn_bench.data.examples import Examples, Histories, IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.context import TEST_GROUPS, EvaluationContext
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.user_block import BEAMS, LIST_LENGTH
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["GroupLists", "decode", "decode_block", "decode_groups", "history_limit"]

CHUNK = 1024
"""Rows per call: bounds the padding and paces the bar. The recommender cuts its own batches out of it."""


@dataclass(frozen=True, eq=False)
class GroupLists:
    """One test group with its histories and ranked lists.

    Attributes:
        histories: [M] as the model was given them.
        rankings: By beam; lists of ``max(10, beam)`` places.
        first: Row of the group that ``examples`` begin with, where they are a block of it.
    """

    group: Group
    examples: Examples
    histories: Histories
    rankings: Mapping[int, Ranking]
    first: int = 0

    def top(self, beam: int) -> IntArray:
        """[M, 10] the first ten items at a beam, -1 at empty places."""
        return self.rankings[beam].items[:, :LIST_LENGTH]


def decode(
    ranker: Ranker, histories: Histories, *, beam: int, label: str, progress: Progress, sids: SidTable | None = None
) -> Ranking:
    """``recommend`` for any number of histories, in chunks of similar length, returned in the given order.

    ``sids`` decodes a ``Recommender`` in another SID space.
    """
    width = max(LIST_LENGTH, beam)
    items = np.full((len(histories), width), -1, dtype=np.int64)
    log_probs = np.full((len(histories), width), -np.inf, dtype=np.float32)
    chunks = list(length_batches(histories.lengths, CHUNK))
    for rows in progress.track(label, chunks, total=len(chunks)):
        part = histories.rows(rows)
        if sids is not None and isinstance(ranker, Recommender):
            ranking = ranker.recommend(part, width, beam=beam, sids=sids)
        else:
            ranking = ranker.recommend(part, width, beam=beam)
        items[rows] = ranking.items
        log_probs[rows] = ranking.log_probs
    return Ranking(items, log_probs)


def history_limit(ranker: Ranker) -> int | None:
    """How many items the model reads; None where it reads (or ignores) all."""
    return ranker.history_limit if isinstance(ranker, Recommender) else None


def decode_groups(context: EvaluationContext, progress: Progress) -> tuple[GroupLists, ...]:
    """Forget and retain test examples, decoded at every beam. Histories may be empty, groups too."""
    return tuple(decode_block(context, group, context.test(group), progress) for group in TEST_GROUPS)


def decode_block(
    context: EvaluationContext, group: Group, examples: Examples, progress: Progress, *, first: int = 0
) -> GroupLists:
    """Some test examples of one group, from row ``first`` of it on, decoded at every beam."""
    ranker = context.ranker
    # A served model that drops items from histories is given the whole history, as it drops before it cuts.
    cut = None if isinstance(ranker, Recommender) and ranker.serving.ignored is not None else history_limit(ranker)
    histories = examples.histories(cut)
    rankings: dict[int, Ranking] = {}
    for beam in BEAMS:
        if isinstance(ranker, Recommender) or not rankings:
            label = f"{group.value} test, beam {beam}"
            width = beam if isinstance(ranker, Recommender) else max(BEAMS)
            rankings[beam] = decode(ranker, histories, beam=width, label=label, progress=progress)
        else:
            # Nothing is pruned, so that the beam changes nothing.
            rankings[beam] = next(iter(rankings.values()))
    return GroupLists(group, examples, histories, rankings, first)
