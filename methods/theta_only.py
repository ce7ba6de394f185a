"""Control for TRACER (arXiv 2606.07688): its losses on the network, without φ and without reassigned tokens.

Trains on L_R + λ1 L_F + λ2 L_Coh (eq. 10 without L_reg) with the original SIDs for as many epochs; weights are equal
bit for bit to ``tracer`` with ``reassign=false`` (the paper's ablation). A separate method, because it needs no
codebooks and so runs on every backbone. Updates all parameters. Requests for single interactions are treated alike.
"""

from __future__ import annotations

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.losses.suppression import Objective, UnlearningLossConfig, train_with_discrete_sids
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest


class ThetaOnlyConfig(UnlearningLossConfig):
    """TRACER's losses and optimiser."""


class ThetaOnly(UnlearningMethod[ThetaOnlyConfig]):
    """TRACER's suppression alone; no token is reassigned."""

    name = "theta-only"
    Config = ThetaOnlyConfig

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()
        objective = Objective(self.config, request, recommender.sids)
        train_with_discrete_sids(model, objective, epochs=self.config.epochs, progress=progress, stage="hard")
        model.module.eval()
        return model
