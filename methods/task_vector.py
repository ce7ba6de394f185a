"""Task vectors: subtract what fine-tuning on the forget set adds (Ilharco et al. 2023, arXiv 2212.04089).

θ = θ0 − α(θ_ft − θ0), θ_ft being the original fine-tuned on the forget examples alone (CE). Updates all parameters; the
model's retain data are not read. MUSE (arXiv 2407.06460) uses learning rate 1e-5, 10 epochs and α 5 for a 7B model, and
takes the difference in bfloat16, where small updates vanish; here it is taken in float32 over parameters (a state dict
lists tied embeddings more than once). As long as the difference is small, α and the length of fine-tuning are nearly
one knob; a large α changes the scale of norms, and the record says what it does to retain data (``ruined``).

``task-vector-contrast`` (ours) is θ0 − α(Δ_f − Δ_r), Δ_r from as many steps on random retain examples: Δ_f also holds
further training and the codes that all items share.

Models with adapters (MiniOneRec with LoRA): the negative of two factors is not that of their product, so another
adapter is trained and subtracted as a product. A backbone that learned titles is fine-tuned on the concept's titles as
well. Requests for single interactions need no changes.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import Field

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import forward, token_nll
from genrec_unlearn_bench.unlearning.lora import LowRank, adapted_layers, linear_names
from genrec_unlearn_bench.unlearning.losses.retain_loss import note_damage
from genrec_unlearn_bench.unlearning.losses.suppression import ItemTexts
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class TaskVectorConfig(DescentConfig):
    """Fine-tuning, and the factor of the difference."""

    search = Search(alpha=(0.5, 1.0, 2.0, 5.0))

    alpha: float = Field(default=1.0)
    """α, factor of the subtracted difference; 0 is the original, −1 the fine-tuned model."""
    contrast: bool = False
    """Subtract the difference between fine-tuning on forget and on retain examples."""
    text_share: float = Field(default=0.25, ge=0, le=1)
    """For backbones that learned titles: concept items whose titles are fine-tuned on, as a share of the batch."""
    rank: int = Field(default=16, ge=1)
    """Rank of the adapter for models that have adapters, at most half the model's width."""


class TaskVector(UnlearningMethod[TaskVectorConfig]):
    """The negative of what fine-tuning on the forget set adds to the weights."""

    name = "task-vector"
    Config = TaskVectorConfig
    variants: ClassVar[Variants] = {"task-vector-contrast": {"contrast": True}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        sides = {"forget": -self.config.alpha} | ({"retain": self.config.alpha} if self.config.contrast else {})
        model = recommender.clone()
        for side, factor in sides.items():
            self._add(model, recommender, request, side, factor, progress)
        note_damage(model, recommender, request, progress)
        return model

    def _add(
        self,
        model: Recommender,
        original: Recommender,
        request: ForgetRequest,
        side: str,
        factor: float,
        progress: Progress,
    ) -> None:
        """Add ``factor`` times what fine-tuning the original on one side of the request adds to its weights."""
        tuned = original.clone()
        if adapted_layers(original.module):
            blocks = anatomy(tuned).blocks
            rank = max(1, min(self.config.rank, blocks[0].down.out_features // 2))
            seed = derive(request.seed, "task-vector", side)
            adapters = LowRank(tuned.module, linear_names(blocks), rank=rank, scale=2.0, seed=seed)
            self._fine_tune(tuned, request, side, progress, adapters)
            adapters.merge()
        else:
            self._fine_tune(tuned, request, side, progress)
        with torch.no_grad():
            weights = (each.module.parameters() for each in (model, tuned, original))
            for parameter, after, before in zip(*weights, strict=True):
                parameter.copy_(parameter.float() + factor * (after.float() - before.float()))

    def _fine_tune(
        self, model: Recommender, request: ForgetRequest, side: str, progress: Progress, adapters: LowRank | None = None
    ) -> None:
        reads_titles = Capability.TEXT_TASKS in model.capabilities and side == "forget" and self.config.text_share > 0
        texts = ItemTexts(request, model.sids) if reads_titles else None

        def step(batch: PairedBatch) -> Terms:
            part = batch.forget if side == "forget" else batch.retain
            loss = token_nll(forward(model, part))
            backward(loss)
            if texts is not None and texts.learned:
                backward(-texts.log_likelihood(model, texts.draw(math.ceil(self.config.text_share * len(part)))))
            return {f"{side}_nll": loss.detach()}

        parameters = None if adapters is None else adapters.parameters
        descend(model, request, self.config, step, progress, parameters=parameters)
