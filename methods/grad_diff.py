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

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.descent import backward, descend
from genrec_unlearn_bench.unlearning.likelihood import token_nll
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig, note_damage, retain_term
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import PairedBatch


class GradDiff(UnlearningMethod[WeightedConfig]):
    """Ascent on forget examples, descent on retain examples."""

    name = "grad-diff"
    Config = WeightedConfig
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {"grad-diff-kl": {"retain_loss": "kl"}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()

        def step(batch: PairedBatch) -> Mapping[str, Tensor | float]:
            forget = token_nll(model.forward(batch.forget.histories(model.history_limit), batch.forget.targets))
            backward(-config.gamma * forget)
            retain = retain_term(model, recommender, batch.retain, config.retain_loss)
            backward(config.alpha * retain)
            return {"forget_nll": forget.detach(), "retain": retain.detach()}

        descend(model, request, config, step, progress)
        note_damage(model, recommender, request, progress)
        return model
