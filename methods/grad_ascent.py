"""Gradient ascent on the forget examples (Jang et al. 2023, "Knowledge unlearning", arXiv 2210.01504, sec. 3).

Minimises −CE on the forget examples, a mean over target tokens, and nothing else (open-unlearning's GradAscent).
Updates all parameters. log p has no lower bound, so the model is destroyed within tens of steps: a property of the
method. Therefore the gradient norm is clipped to 1 and, by default, training stops at a ceiling on the retain
validation loss and restores the last weights below it (``retain_ceiling``); the original work also selects its
checkpoint on validation sets. With ``retain_ceiling=null`` training is unconstrained, and the record holds the damage
(``ruined``, ``retain_nll_ratio``).

All tokens of the target are suppressed, a collision ordinal included: it is nearly certain, where −CE has almost no
gradient. Requests for items and for single interactions need no changes.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import forward, token_nll
from genrec_unlearn_bench.unlearning.losses.retain_loss import note_damage
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class GradAscentConfig(DescentConfig):
    """The shared training loop with a ceiling on the retain loss."""

    search = Search(retain_ceiling=(1.02, 1.1, 1.3))

    retain_ceiling: float | None = Field(default=1.1, gt=1)
    """Stop once the retain validation NLL exceeds this multiple of the original's; null never stops."""
    check_every: int = Field(default=1, ge=1)
    """Steps between two checks of the ceiling: every step, as a few steps can destroy the model."""


class GradAscent(UnlearningMethod[GradAscentConfig]):
    """Gradient ascent on the forget examples, stopped at a ceiling on the retain loss."""

    name = "grad-ascent"
    Config = GradAscentConfig
    variants: ClassVar[Variants] = {"grad-ascent-unheld": {"retain_ceiling": None}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()

        def step(batch: PairedBatch) -> Terms:
            forget = token_nll(forward(model, batch.forget))
            backward(-forget)
            return {"forget_nll": forget.detach()}

        descend(model, request, self.config, step, progress)
        note_damage(model, recommender, request, progress)
        return model
