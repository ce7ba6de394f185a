"""WGA: weighted gradient ascent (Wang et al. 2025, "Rethinking LLM unlearning objectives", arXiv 2502.19301).

L = γF + αR with F = −mean over target tokens of sg(p_y)^β · (−log p_y): ascent whose weight fades as a token becomes
unlikely. Its gradient is that of mean(p_y^β)/β, so F descends a bounded function, lies in [−1/(eβ), 0], and is gradient
difference at β = 0. R is the CE of as many random retain examples (``nll``) or the KL from the original (``kl``).
Updates all parameters.

Weights are those of the authors' repository (tmlr-group/G-effect) and of open-unlearning: ``wga`` p^β; ``tnpo``
2p^β/(p^β + p0^β), token-wise NPO; ``wtnpo``, the same times p^a. Defaults are open-unlearning's (β 1, γ = α = 1); the
authors' recipe for LLMs (β 5, KL) is the variant ``wga-official``: at p = .05, common for SID tokens, its gradient is a
millionth of what it is on memorised text. The mean weight is in the log (``weight``).

Deviations: tnpo is computed as 2σ(β(log p − log p0)), because the official 1e-5 in the denominator dominates at small
p; the KL is masked (unlearning/losses/retain_loss.py). Requests for items and for single interactions need no changes.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.unlearning.descent import PairedBatch, Search, Terms
from genrec_unlearn_bench.unlearning.likelihood import forward, resting
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig, descend_weighted, note_damage
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class WGAConfig(WeightedConfig):
    """The weights of the terms and of the tokens."""

    search = Search(beta=(0.25, 0.5, 1.0), gamma=(0.3, 1.0, 3.0))

    beta: float = Field(default=1.0, ge=0)
    """β: how soon the weight of a token fades with its probability."""
    weighting: Literal["wga", "tnpo", "wtnpo"] = "wga"
    """Weight of a token: p^β, or token-wise NPO's, or that times p^a."""
    tnpo_power: float = Field(default=1.5, ge=0)
    """a, exponent of p in wtnpo."""


class WGA(UnlearningMethod[WGAConfig]):
    """Gradient ascent, weighted by the token's own probability."""

    name = "wga"
    Config = WGAConfig
    variants: ClassVar[Variants] = {
        "wga-official": {"beta": 5.0, "retain_loss": "kl"},
        "wga-tnpo": {"weighting": "tnpo", "beta": 4.0},
        "wga-wtnpo": {"weighting": "wtnpo", "beta": 4.0},
    }

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()

        def forget_term(batch: PairedBatch) -> tuple[Tensor, Terms]:
            reference = None
            if self.config.weighting != "wga":
                with resting(recommender):
                    reference = forward(recommender, batch.forget).token_log_probs()
            output = forward(model, batch.forget)
            log_probs = output.token_log_probs()
            weight = self.token_weights(log_probs.detach(), reference)
            loss = output.mean(weight * log_probs)
            return loss, {"forget": loss, "weight": output.mean(weight)}

        descend_weighted(model, recommender, request, self.config, forget_term, progress)
        note_damage(model, recommender, request, progress)
        return model

    def token_weights(self, log_probs: Tensor, reference: Tensor | None) -> Tensor:
        """[R, L] weights of the tokens' log-probabilities; ``reference``: the original's, for tnpo and wtnpo."""
        config = self.config
        if reference is None:
            return (config.beta * log_probs).exp()
        weight = 2 * torch.sigmoid(config.beta * (log_probs - reference))
        return weight if config.weighting == "tnpo" else weight * (config.tnpo_power * log_probs).exp()
