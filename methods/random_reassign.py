"""Control for TRACER (arXiv 2606.07688): reassign concept items to random SIDs that retain items rarely use.

The network is then trained exactly as TRACER's (same losses, as many epochs, discrete SIDs throughout); updates all
parameters. If TRACER does no better, learning φ adds nothing. Needs no codebooks: in a tree of IDs (P5) content codes
are drawn, and ordinals and end tokens are kept. For requests to forget single interactions nothing is reassigned, as in
TRACER.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.losses.suppression import Objective, UnlearningLossConfig, train_with_discrete_sids
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.tokens.discretise import discretise, note_reassignment


class RandomReassignConfig(UnlearningLossConfig):
    """TRACER's losses, and the share of codes that count as rarely used."""

    epochs: int = Field(default=10, ge=0)
    """Epochs over the forget set (TRACER's soft and hard epochs together)."""
    rare_share: float = Field(default=0.25, gt=0, le=1)
    """Share of each level's codes to draw from: those with the fewest retain items."""


class RandomReassign(UnlearningMethod[RandomReassignConfig]):
    """Random low-overlap SIDs for concept items, then TRACER's training."""

    name = "random-reassign"
    Config = RandomReassignConfig

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()
        objective = Objective(self.config, request, recommender.sids)
        if request.items.any():
            logits = self._random_logits(recommender.sids, request)
            outcome = discretise(recommender.sids, request.item_ids, logits)
            note_reassignment(progress, recommender.sids, outcome, request.items)
            model = model.with_sids(outcome.table)
        train_with_discrete_sids(model, objective, epochs=self.config.epochs, progress=progress, stage="hard")
        return model

    def _random_logits(
        self, table: SidTable, request: ForgetRequest
    ) -> list[np.ndarray[tuple[int, int], np.dtype[np.float32]]]:
        """Q arrays [n, K_l]: uniform random on the rare codes of each level, 10 less on the others."""
        generator = numpy_generator(request.seed, "random-reassign")
        retain = table.quantised_codes[~request.items]
        out = []
        for column, size in zip(retain.T, table.quantised_sizes, strict=True):
            counts = np.bincount(column[column >= 0], minlength=size)
            rare = np.argsort(counts, kind="stable")[: max(1, round(self.config.rare_share * size))]
            logits = generator.random((int(request.items.sum()), size)).astype(np.float32)
            common = np.ones(size, dtype=np.bool_)
            common[rare] = False
            logits[:, common] -= 10
            out.append(logits)
        return out
