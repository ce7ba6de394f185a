"""Gradient difference: ascent on the forget examples plus descent on retain examples.

Liu, Liu and Stone 2022, "Continual learning and private unlearning" (arXiv 2203.12817); the form is that of TOFU
(arXiv 2401.06121, sec. 4) and open-unlearning's GradDiff: γ(−CE on forget) + αR, where R is the CE of as many random
retain examples (``nll``, the default) or KL(θ0 ‖ θ) on them (``kl``). Its defaults: γ = α = 1. Updates all parameters.

The forget term has no lower bound, so a large γ or learning rate still ruins the model; the record says so
(``ruined``, ``retain_nll_ratio``), and ``retain_ceiling`` can prevent it. Deviation: the KL is masked to real target
positions and legal codes (unlearning/losses/retain_loss.py); the original averages over padding as well. Requests for
items and for single interactions need no changes.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from genrec_unlearn_bench.unlearning.descent import PairedBatch, Terms
from genrec_unlearn_bench.unlearning.likelihood import forward, token_nll
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig, descend_weighted, note_damage
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class GradDiff(UnlearningMethod[WeightedConfig]):
    """Ascent on forget examples, descent on retain examples."""

    name = "grad-diff"
    Config = WeightedConfig
    variants: ClassVar[Variants] = {"grad-diff-kl": {"retain_loss": "kl"}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()

        def forget_term(batch: PairedBatch) -> tuple[Tensor, Terms]:
            nll = token_nll(forward(model, batch.forget))
            return -nll, {"forget_nll": nll}

        descend_weighted(model, recommender, request, self.config, forget_term, progress)
        note_damage(model, recommender, request, progress)
        return model
