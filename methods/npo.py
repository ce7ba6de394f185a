"""NPO: negative preference optimisation (Zhang et al. 2024, arXiv 2404.05868).

L = γ · (−2/β) E log σ(−β log(p_θ/p_θ0)(forget)) + αR (eq. 3, and a retain term), log p being the
**sum** over the target's tokens: the preference is about the whole answer. Its gradient is that of gradient ascent
(on sequence sums) times 2p_θ^β/(p_θ^β + p_θ0^β), so it is ascent as β → 0 and vanishes on forgotten answers.
Updates all parameters. The original is run once over the forget examples, before training.

Values are those of open-unlearning: β 0.1, γ = α = 1, R the CE of as many random retain examples. A SID has three or
four tokens and 5 to 15 nats, so β = 0.1 leaves the sigmoid near its linear part, close to gradient ascent; β is
searched up to 1 for that reason. Deviations: the KL choice of R is masked (unlearning/losses/retain_loss.py); constant
learning rate. Requests for items and for single interactions need no changes.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.unlearning.descent import PairedBatch, Terms
from genrec_unlearn_bench.unlearning.likelihood import forward, npo_loss, reference_nll, sequence_nll
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig, descend_weighted
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, Search, UnlearningMethod


class NPOConfig(WeightedConfig):
    """The weights and the inverse temperature."""

    search = Search(beta=(0.1, 0.5, 1.0))

    beta: float = Field(default=0.1, gt=0)
    """β, inverse temperature: how soon an answer counts as forgotten; gradient ascent at 0."""


class NPO(UnlearningMethod[NPOConfig]):
    """Preference optimisation with losing answers only, relative to the original."""

    name = "npo"
    Config = NPOConfig

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()
        reference = reference_nll(recommender, request.train.forget)

        def forget_term(batch: PairedBatch) -> tuple[Tensor, Terms]:
            nll = sequence_nll(forward(model, batch.forget))
            rows = torch.from_numpy(batch.forget_rows).to(reference.device)
            loss = npo_loss(nll, reference[rows], self.config.beta)
            return loss, {"forget": loss, "forget_nll": nll.mean()}

        descend_weighted(model, recommender, request, self.config, forget_term, progress)
        return model
