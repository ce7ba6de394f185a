"""Control for TRACER (arXiv 2606.07688): reassign concept items to random SIDs that retain items rarely use.

The network is then trained exactly as TRACER's (same losses, as many epochs, discrete SIDs throughout); updates all
parameters. If TRACER does no better, learning φ adds nothing. Needs no codebooks: in a tree of IDs (P5) content codes
are drawn, and ordinals and end tokens are kept. For requests to forget single interactions nothing is reassigned, as in
TRACER.
"""

from __future__ import annotations

from pydantic import Field

from genrec_unlearn_bench.unlearning.losses.suppression import Objective, UnlearningLossConfig, train_with_discrete_sids
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod
from genrec_unlearn_bench.unlearning.tokens.discretise import randomly_reassigned


class RandomReassignConfig(UnlearningLossConfig):
    """TRACER's losses, and the share of codes that count as rarely used."""

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
            share, table = self.config.rare_share, recommender.sids
            table = randomly_reassigned(table, request.items, share, seed=request.seed, progress=progress)
            model = model.with_sids(table)
        train_with_discrete_sids(model, objective, epochs=self.config.epochs, progress=progress)
        return model
