"""Cross-entropy over a large vocabulary that never holds the logits of all positions at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

__all__ = ["token_losses"]

_ELEMENTS = 1 << 28
"""Logits held at a time: 1 GiB in float32."""


def token_losses(states: Tensor, labels: Tensor, head: Callable[[Tensor], Tensor], vocabulary: int) -> Tensor:
    """[P] negative log-likelihoods in nats. Beyond the budget, logits are made again in the backward pass.

    Args:
        states: [P, D] final states.
        labels: [P] long.
        head: Maps [p, D] to logits [p, V].
    """

    def losses(part: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(head(part).float(), wanted, reduction="none")

    chunk = max(1, _ELEMENTS // vocabulary)
    if len(states) <= chunk:
        return losses(states, labels)
    parts = [
        checkpoint(losses, states[first : first + chunk], labels[first : first + chunk], use_reentrant=False)
        for first in range(0, len(states), chunk)
    ]
    return torch.cat(parts)
