"""BLUR's combination of two gradients: a projection over all trained parameters at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.unlearning.descent import backward

Priority = Literal["forget", "retain", "none"]
TINY = 1e-30
"""Squared norm below which a gradient counts as 0."""


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
