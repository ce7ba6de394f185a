"""SimNPO: NPO without a reference model, on length-normalised likelihoods (Fan et al. 2024, arXiv 2410.07163).

L = γ · (−2/β) E log σ(−(β/|y|) log p_θ(forget) − βδ) + αR, as its code and open-unlearning write it (the paper's
margin γ is βδ). |y| counts the real tokens of each target: trees of IDs have targets of different length. A target
counts as forgotten once its NLL per token is about 1/β above δ, whatever it was originally. Updates all parameters.

The released recipes differ: TOFU has β 2.5 and 4.5, δ 0 and forget weights near 0.13; MUSE-News has β 0.7, δ 3 and α
0.1. TOFU's answers are memorised (NLL per token near 0); SIDs start at 1 to 4 nats per token, like MUSE's news, where β
4.5 with δ 0 has no gradient from the first step (2σ(−9) at 2 nats). So β and δ are MUSE-News's; γ = α = 1 as for NPO,
so that the two differ only in the loss. TOFU's recipe is the variant ``simnpo-tofu``, and its β and γ are among the
values that are searched. Requests for items and for single interactions need no changes.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.unlearning.descent import PairedBatch, Search, Terms
from genrec_unlearn_bench.unlearning.likelihood import forward, sequence_nll, target_lengths
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig, descend_weighted
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class SimNPOConfig(WeightedConfig):
    """The weights, the inverse temperature and the margin."""

    search = Search(
        {"beta": 4.5, "delta": 0.0, "gamma": 0.125}, beta=(0.7, 2.5, 4.5), delta=(0.0, 3.0), gamma=(0.125, 0.3, 1.0)
    )

    beta: float = Field(default=0.7, gt=0)
    """β, inverse temperature: how sharply the gradient vanishes beyond the margin."""
    delta: float = Field(default=3.0, ge=0)
    """δ, the margin: NLL per token, in nats, up to which the gradient keeps (almost) full strength."""


class SimNPO(UnlearningMethod[SimNPOConfig]):
    """NPO with a margin instead of a reference model, on likelihoods per token."""

    name = "simnpo"
    Config = SimNPOConfig
    variants: ClassVar[Variants] = {"simnpo-tofu": {"beta": 4.5, "delta": 0.0, "gamma": 0.125}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()

        def forget_term(batch: PairedBatch) -> tuple[Tensor, Terms]:
            output = forward(model, batch.forget)
            nll = sequence_nll(output)
            loss = simnpo_loss(nll, target_lengths(output), self.config.beta, self.config.delta)
            return loss, {"forget": loss, "forget_nll": nll.mean()}

        descend_weighted(model, recommender, request, self.config, forget_term, progress)
        return model


def simnpo_loss(nll: Tensor, lengths: Tensor, beta: float, delta: float) -> Tensor:
    """Scalar: −(2/β) mean log σ(β(NLL/|y| − δ)) of the sequence sums ``nll`` [R], in nats, and |y| ``lengths`` [R]; the
    margin δ is in nats per token (the paper's γ is βδ)."""
    return -2 / beta * F.logsigmoid(beta * (nll / lengths - delta)).mean()
