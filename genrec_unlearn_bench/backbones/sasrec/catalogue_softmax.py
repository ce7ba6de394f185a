"""Cross-entropy over a whole catalogue without the scores of a whole batch in memory.

A batch has thousands of positions and a catalogue tens of thousands of items: as one matrix, scores and their gradient
take gigabytes, and moving them costs more than computing them. Here both are made chunk by chunk in one small buffer,
and gradients are taken on the way forward.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["softmax_loss"]

_SCORES = 1_000_000
"""Scores held at once: 4 MB."""


def softmax_loss(states: Tensor, targets: Tensor, vectors: Tensor) -> Tensor:
    """Mean cross-entropy of targets [P] (rows of ``vectors`` [n, D]) after states [P, D], in nats."""
    loss: Tensor = _CatalogueSoftmax.apply(states, targets, vectors)  # type: ignore[no-untyped-call]
    return loss


class _CatalogueSoftmax(torch.autograd.Function):
    """The loss, and its gradients kept for the way back."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, targets: Tensor, vectors: Tensor) -> Tensor:
        chunk = max(_SCORES // len(vectors), 1)
        buffer = states.new_empty(min(chunk, len(states)), len(vectors))
        by_state, by_vector = torch.empty_like(states), torch.zeros_like(vectors)
        total = states.new_zeros(())
        for start in range(0, len(states), chunk):
            rows, wanted = states[start : start + chunk], targets[start : start + chunk, None]
            scores = torch.mm(rows, vectors.T, out=buffer[: len(rows)])
            scores.sub_(scores.amax(1, keepdim=True))
            own = scores.gather(1, wanted)
            sums = scores.exp_().sum(1, keepdim=True)
            total += (sums.log() - own).sum()
            # What is left is the gradient by the scores: probabilities, less one at the target.
            scores.div_(sums).scatter_add_(1, wanted, scores.new_full((len(rows), 1), -1.0))
            torch.mm(scores, vectors, out=by_state[start : start + chunk])
            by_vector.addmm_(scores.T, rows)
        ctx.save_for_backward(by_state.div_(len(states)), by_vector.div_(len(states)))
        return total / len(states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        by_state, by_vector = ctx.saved_tensors
        return gradient * by_state, None, gradient * by_vector
