"""Control: move concept items to random SIDs, then train on retain data alone; nothing is suppressed.

The table is that of ``random-reassign`` (equal digests for a seed), and the loss is that of ``retain-only``: TRACER's
L_R (arXiv 2606.07688, eq. 7) with concept items in histories under their new SIDs and never as targets. Updates all
parameters. Together with ``retain-only``, ``tracer-no-reassignment`` and ``random-reassign`` it crosses moved tokens
with suppression.

In the new SIDs the forget scores are near 0 even if the network has unlearned nothing: read it by the scores in the
original SIDs, by probing, and by relearning. Requests for single interactions are refused: nothing would move, and it
would be ``retain-only``.
"""

from __future__ import annotations

from pydantic import Field

from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.unlearning.losses.suppression import (
    RetainLossConfig,
    RetainObjective,
    train_with_discrete_sids,
)
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, Search, UnlearningMethod
from genrec_unlearn_bench.unlearning.tokens.discretise import randomly_reassigned


class RelabelConfig(RetainLossConfig):
    """TRACER's optimiser and retain loss, and the share of codes that count as rarely used."""

    search = Search(rare_share=(0.1, 0.25))

    rare_share: float = Field(default=0.25, gt=0, le=1)
    """Share of each level's codes to draw from: those with the fewest retain items."""


class Relabel(UnlearningMethod[RelabelConfig]):
    """Random low-overlap SIDs for concept items, then fine-tuning on retain examples."""

    name = "relabel"
    Config = RelabelConfig
    kinds = frozenset(ConceptKind) - {ConceptKind.INTERACTION}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        share, table = self.config.rare_share, recommender.sids
        table = randomly_reassigned(table, request.items, share, seed=request.seed, progress=progress)
        model = recommender.clone().with_sids(table)
        objective = RetainObjective(self.config, request, recommender.sids)
        train_with_discrete_sids(model, objective, epochs=self.config.epochs, progress=progress)
        return model
