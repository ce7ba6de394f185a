"""SASRec's network: causal self-attention over a history's items (Kang and McAuley 2018, sec. 3.1 to 3.4).

As in the paper: learned positions, items embedded times sqrt(d), blocks ``x + Dropout(g(LayerNorm(x)))`` of attention
and a two-layer feed-forward network of width d with ReLU, a last layer norm, and one item embedding for input and
output. Deviation: histories are padded on the right and positions counted from the oldest item that is read, so that
no padding mask is needed and padding costs nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig

__all__ = ["SasRecNetwork"]

_SPREAD = 0.02
"""Standard deviation of the initial weights (RecBole's)."""


class SasRecNetwork(nn.Module):
    """Hidden states of histories; an item's score is their dot product with its embedding.

    Args:
        items: N, the catalogue.
        positions: T, most items that are read.
        seed: Of the weights; the global generator is left as it was.
    """

    def __init__(self, config: SasRecConfig, *, items: int, positions: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.items = nn.Embedding(items, config.dim)
            self.positions = nn.Embedding(positions, config.dim)
            self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.dim)
            self.dropout = nn.Dropout(config.dropout)
            self.apply(_start)

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


class _Block(nn.Module):
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


def _start(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=_SPREAD)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
