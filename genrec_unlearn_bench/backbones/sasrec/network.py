"""SASRec's network and its loss over the whole catalogue.

Causal self-attention over a history's items (Kang and McAuley 2018, sec. 3.1 to 3.4). As in the paper: learned
positions, items embedded times sqrt(d), blocks ``x + Dropout(g(LayerNorm(x)))`` of attention and a two-layer
feed-forward network of width d with ReLU, a last layer norm, and one item embedding for input and output. Deviation:
histories are padded on the right and positions counted from the oldest item that is read, so that no padding mask is
needed and padding costs nothing.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig

__all__ = ["SasRecNetwork", "softmax_loss"]

_INITIAL_STD = 0.02
"""Standard deviation of the initial weights (RecBole's)."""


class SasRecNetwork(nn.Module):
    """Hidden states of histories of up to T (``positions``) of N ``items``; scores are products with item embeddings.

    Weights are drawn from ``seed``; the global generator is left as it was.
    """

    def __init__(self, config: SasRecConfig, *, items: int, positions: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.items = nn.Embedding(items, config.dim)
            self.positions = nn.Embedding(positions, config.dim)
            self.blocks = nn.ModuleList(_AttentionBlock(config) for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.dim)
            self.dropout = nn.Dropout(config.dropout)
            self.apply(_initialise)

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, T, D] states of item ids [B, T], negative ids being padding on the right.

        The state at t depends on items 0 … t alone. States of padding mean nothing.
        """
        dim = self.items.embedding_dim
        places = torch.arange(inputs.shape[1], device=inputs.device)
        states = self.items(inputs.clamp_min(0)) * math.sqrt(dim) + self.positions(places)
        states = self.dropout(states)
        for block in self.blocks:
            states = block(states)
        out: Tensor = self.norm(states)
        return out


class _AttentionBlock(nn.Module):
    """Attention and feed-forward network, normalised before, added after."""

    def __init__(self, config: SasRecConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.rate = config.dropout
        self.before = nn.LayerNorm(config.dim)
        self.project = nn.Linear(config.dim, 3 * config.dim)
        self.merge = nn.Linear(config.dim, config.dim)
        self.between = nn.LayerNorm(config.dim)
        self.widen = nn.Linear(config.dim, config.dim)
        self.narrow = nn.Linear(config.dim, config.dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor) -> Tensor:
        batch, length, dim = states.shape
        parts = self.project(self.before(states)).view(batch, length, 3, self.heads, dim // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        rate = self.rate if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=True)
        states = states + self.dropout(self.merge(mixed.transpose(1, 2).reshape(batch, length, dim)))
        inner = self.dropout(torch.relu(self.widen(self.between(states))))
        out: Tensor = states + self.dropout(self.narrow(inner))
        return out


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=_INITIAL_STD)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


_SCORES = 1_000_000
"""Scores held at once: 4 MB."""


def softmax_loss(states: Tensor, targets: Tensor, vectors: Tensor) -> Tensor:
    """Mean cross-entropy of targets [P] (rows of ``vectors`` [n, D]) after states [P, D], in nats.

    A batch has thousands of positions and a catalogue tens of thousands of items: as one matrix, scores and their
    gradient take gigabytes, and moving them costs more than computing them. Here both are computed chunk by chunk in
    one small buffer, and gradients are taken in the forward pass.
    """
    loss: Tensor = _CatalogueSoftmax.apply(states, targets, vectors)  # type: ignore[no-untyped-call]
    return loss


class _CatalogueSoftmax(torch.autograd.Function):
    """The loss; its gradients are saved for the backward pass."""

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
