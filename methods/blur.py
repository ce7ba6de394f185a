"""BLUR: bi-level unlearning (Reisizadeh et al. 2025, arXiv 2506.08164).

Forgetting is the lower-level problem and has priority, retaining the upper-level one. Each step takes the direction

    d = g_r + (γ − <g_r, g_f> / ‖g_f‖²) g_f

so that the retain gradient has no component for or against forgetting: <d − γ g_f, g_f> = 0. The projection is
unconditional (PCGrad projects only conflicting gradients, and both) and global: one inner product in float32 over all
trained parameters, SID embeddings included, which carry the overlap of concept and retain items. L_f is NPO,
L_r the mean NLL of retain targets. Updates all trainable parameters. If
‖g_f‖ = 0, d = g_r. The cosine of the two gradients is logged each step: the gradient conflict of the TRACER paper.

The TRACER paper says that BLUR gives retaining priority and is for sequential recommendation. BLUR's paper and code
give forgetting priority and are for language models; the variant ``blur-forget-upper`` is what TRACER describes.

Deviations, each with its reason:
- NPO on each sequence's sum. The official MUSE loss is elementwise over the vocabulary's logits, and TOFU's averages
  NLLs over the batch before the sigmoid; neither is NPO.
- The norm is clipped after the projection. Official code clips before it writes d, which has no effect.
- γ is a field; the official TOFU class fixes it to 1. AdamW's scaling breaks exact orthogonality, there and here.

``blur-rmu`` is the form for WMDP: RMU's losses and matrices (``unlearning/losses/steering.py``), γ = 1, g_r the
gradient of the retain loss times α. ``blur-pen`` is the weighted sum g_r + γ g_f that the paper compares with.
Item-text samples of a recommender that learned titles are not unlearned. Interaction requests forget the sequences of
the given pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import forward, npo_loss, reference_nll, sequence_nll, token_nll
from genrec_unlearn_bench.unlearning.losses.steering import Steering
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants
from genrec_unlearn_bench.unlearning.search import LEARNING_RATES

Priority = Literal["forget", "retain", "none"]
TINY = 1e-30
"""Squared norm below which a gradient counts as 0."""


Term = Callable[[PairedBatch], Tensor]


class BlurConfig(DescentConfig):
    """The two losses and their priority."""

    search = Search(gamma=(0.5, 1.0, 2.0), beta=(0.1, 0.5))

    lr: float = Field(default=3e-4, gt=0)
    """AdamW learning rate (official: 1e-5 and 2.5e-5 for 7 billion parameters)."""
    losses: Literal["npo", "rmu"] = "npo"
    """NPO and the NLL of retain targets, or RMU's pair."""
    priority: Priority = "forget"
    """The gradient that is not projected: forget (BLUR), retain (its mirror image), or none (weighted sum)."""
    gamma: float = Field(default=1.0, gt=0)
    """γ, weight of the gradient with priority."""
    beta: float = Field(default=0.1, gt=0)
    """β of NPO, per nat of a sequence."""
    kappa: float = Field(default=2.0, gt=0)
    """Length of RMU's control vector, in mean norms of the original's states."""
    alpha: float = Field(default=10.0, ge=0)
    """Weight of RMU's retain loss."""


class Blur(UnlearningMethod[BlurConfig]):
    """BLUR (arXiv 2506.08164): forget gradient plus the part of the retain gradient orthogonal to it."""

    name = "blur"
    Config = BlurConfig
    variants: ClassVar[Variants] = {
        "blur-forget-upper": {"priority": "retain"},
        "blur-pen": {"priority": "none"},
        "blur-rmu": {"losses": "rmu", "lr": 1e-3},
    }
    variant_search: ClassVar[Mapping[str, Search]] = {
        "blur-rmu": Search(lr=LEARNING_RATES, beta=None, kappa=(2.0, 5.0), alpha=(1.0, 10.0, 100.0))
    }

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        trained, forget, retain = (self._rmu if config.losses == "rmu" else self._npo)(recommender, model, request)
        cosines: list[float] = []

        def step(batch: PairedBatch) -> Terms:
            losses = (lambda: forget(batch)), (lambda: retain(batch))
            terms = combine(trained, *losses, gamma=config.gamma, priority=config.priority)
            cosines.append(terms["cosine"])
            return terms

        descend(model, request, config, step, progress, parameters=trained)
        progress.note("cosine_mean", float(np.mean(cosines)) if cosines else None)
        return model

    def _npo(
        self, original: Recommender, model: Recommender, request: ForgetRequest
    ) -> tuple[list[nn.Parameter], Term, Term]:
        reference = reference_nll(original, request.train.forget)

        def forget(batch: PairedBatch) -> Tensor:
            nll = sequence_nll(forward(model, batch.forget))
            return npo_loss(nll, reference[torch.from_numpy(batch.forget_rows).to(nll.device)], self.config.beta)

        def retain(batch: PairedBatch) -> Tensor:
            return token_nll(forward(model, batch.retain))

        return [p for p in model.module.parameters() if p.requires_grad], forget, retain

    def _rmu(
        self, original: Recommender, model: Recommender, request: ForgetRequest
    ) -> tuple[list[nn.Parameter], Term, Term]:
        config = self.config
        steering = Steering(original, request, kappa=config.kappa)
        return (
            steering.parameters(model),
            lambda batch: steering.forget(model, batch.forget),
            lambda batch: config.alpha * steering.retain(model, batch.retain),
        )


def combine(
    parameters: Sequence[nn.Parameter],
    forget: Callable[[], Tensor],
    retain: Callable[[], Tensor],
    *,
    gamma: float,
    priority: Priority,
) -> dict[str, float]:
    """Write BLUR's direction d into ``.grad`` (empty before) by two backward passes, each loss freed before the next.

    Priority ``forget``: d = g_r + (γ − <g_r, g_f> / ‖g_f‖²) g_f. The component of g_r along g_f is removed, whatever
    its sign, and γ g_f added: <d − γ g_f, g_f> = 0. ``retain``: the same with the roles exchanged. ``none``: the
    weighted sum g_r + γ g_f. If the gradient with priority is 0, d is the other one.

    Returns:
        The two losses, the cosine of the gradients over all parameters (0 if one of them is 0), and their norms.
    """
    forget_loss = forget()
    first = _take_gradients(parameters, forget_loss)
    retain_loss = retain()
    if retain_loss.requires_grad:
        backward(retain_loss)
    gradients = [_gradient(parameter) for parameter in parameters]
    inner = torch.stack([(one * two).sum() for one, two in zip(first, gradients, strict=True)]).sum().item()
    squares = [torch.stack([g.square().sum() for g in side]).sum().item() for side in (first, gradients)]
    kept, added = 1.0, gamma
    if priority == "forget":
        added = gamma - inner / squares[0] if squares[0] > TINY else 0.0
    elif priority == "retain":
        kept, added = (gamma - inner / squares[1] if squares[1] > TINY else 0.0), 1.0
    for parameter, one, two in zip(parameters, first, gradients, strict=True):
        parameter.grad = two.mul_(kept).add_(one, alpha=added).to(parameter.dtype)
    scale = (squares[0] * squares[1]) ** 0.5
    return {
        "forget": float(forget_loss.detach()),
        "retain": float(retain_loss.detach()),
        "cosine": inner / scale if scale > TINY else 0.0,
        "forget_norm": squares[0] ** 0.5,
        "retain_norm": squares[1] ** 0.5,
    }


def _take_gradients(parameters: Sequence[nn.Parameter], loss: Tensor) -> list[Tensor]:
    """Gradients of a loss by parameter, views of one flat float32 copy; empties ``.grad``."""
    if loss.requires_grad:
        backward(loss)
    flat = torch.cat([_gradient(parameter).flatten() for parameter in parameters])
    for parameter in parameters:
        parameter.grad = None
    parts = torch.split(flat, [parameter.numel() for parameter in parameters])
    return [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]


def _gradient(parameter: nn.Parameter) -> Tensor:
    """The parameter's gradient in float32; zeros if it has none."""
    return torch.zeros_like(parameter, dtype=torch.float32) if parameter.grad is None else parameter.grad.float()
