"""How histories and targets share a forward pass: several targets a history, and groups of similar length.

Unlearning pairs forget and retain examples at random, and two thirds of what a network reads then is padding
(Industrial: histories of up to ten items, 3.4 on average). Every history is computed as it would be alone, so grouping
changes time and not results, but for the last bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CPU_POSITIONS = 1600
"""Positions of a group: activations of so many stay in the caches of a CPU (compare ``training.CPU_ITEMS``)."""


@dataclass(frozen=True, eq=False)
class SharedTargets:
    """Where R targets of length L stand in B packed sequences of T slots.

    The targets of a history are laid end to end as one decoder sequence under a block-diagonal causal mask, so the
    cross-attention keys and values are projected once. Within a block every relative position is what it would be
    alone, so that T5's position bias, and with it every number, is the same as target by target.
    """

    rows: Tensor
    """[R] history of each target."""
    slots: Tensor
    """[R] its slot there."""
    histories: int
    width: int
    """T, most targets that a history has."""

    @classmethod
    def of(cls, rows: Tensor, histories: int) -> SharedTargets:
        """``rows`` [R] says which of the ``histories`` each target belongs to."""
        counts = torch.bincount(rows, minlength=histories)
        order = torch.argsort(rows, stable=True)
        first = torch.cumsum(counts, 0) - counts
        slots = torch.empty_like(rows)
        slots[order] = torch.arange(len(rows), device=rows.device) - first[rows[order]]
        return cls(rows, slots, histories, int(counts.max()))

    def pack(self, tokens: Tensor, fill: int) -> Tensor:
        """[R, L] tokens to [B, T·L]; unused slots hold ``fill``."""
        packed = tokens.new_full((self.histories, self.width, tokens.shape[1]), fill)
        packed[self.rows, self.slots] = tokens
        return packed.flatten(1)

    def unpack(self, values: Tensor, length: int) -> Tensor:
        """[B, T·L, …] back to [R, L, …]."""
        return values.reshape(self.histories, self.width, length, *values.shape[2:])[self.rows, self.slots]

    def mask(self, length: int) -> Tensor:
        """[B, 1, T·L, T·L] bool, True where a position may look: earlier in its own block, or itself."""
        place = torch.arange(self.width * length, device=self.rows.device)
        same_block = place[:, None] // length == place[None] // length
        visible = same_block & (place[:, None] >= place[None])
        return visible.expand(self.histories, 1, -1, -1)


@dataclass(frozen=True, eq=False)
class Packing:
    """Where R targets stand behind B prompts of S positions of a causal model.

    Targets are laid end to end behind the prompt. Each sees the prompt and itself, no other target, and each starts at
    the position right behind the prompt, so that every number is what it would be target by target.
    """

    shared: SharedTargets
    """The first of a target's L tokens is predicted from the prompt's last position, so that each takes L - 1 slots."""
    mask: Tensor
    """[B, 1, S + F, S + F] bool, True where a position may look; padded positions look at themselves."""
    positions: Tensor
    """[B, S + F] rotary positions."""

    @classmethod
    def of(cls, prompt: Tensor, rows: Tensor, length: int) -> Packing:
        """``prompt`` [B, S] real positions, padded on the left; ``rows`` [R] prompt of each target; L ``length``."""
        shared = SharedTargets.of(rows, len(prompt))
        extra = length - 1
        size, width = prompt.shape[1], shared.width * extra
        mask = torch.zeros(len(prompt), size + width, size + width, dtype=torch.bool, device=prompt.device)
        mask[:, :, :size] = prompt[:, None]
        mask[:, :size, :size] &= torch.ones(size, size, dtype=torch.bool, device=prompt.device).tril()
        mask |= torch.eye(size + width, dtype=torch.bool, device=prompt.device)
        ahead = (prompt.long().cumsum(1) - 1).clamp_min(0)
        if width:
            mask[:, size:, size:] = shared.mask(extra)[:, 0]
            behind = prompt.long().sum(1, keepdim=True) + torch.arange(width, device=prompt.device) % extra
            ahead = torch.cat([ahead, behind], 1)
        return cls(shared, mask[:, None], ahead)

    @classmethod
    def alone(cls, prompt: Tensor) -> Packing:
        """Prompts [B, S] with nothing behind them."""
        return cls.of(prompt, torch.arange(len(prompt), device=prompt.device), 1)

    def pack(self, tokens: Tensor) -> Tensor:
        """[R, L] tokens to [B, F] inputs: all but each target's last."""
        return self.shared.pack(tokens[:, :-1], 0)

    def unpack(self, values: Tensor, size: int, length: int) -> Tensor:
        """[B, S + F, D] to [R, L, D]: the positions that predict each token of each target."""
        first = values[:, size - 1][self.shared.rows][:, None]
        if length == 1:
            return first
        return torch.cat([first, self.shared.unpack(values[:, size:], length - 1)], 1)


def watched(network: nn.Module) -> bool:
    """Whether hooks read or change outputs of modules, which then need a batch as a whole."""
    return any(True for _ in foreign_hooks(network))


def foreign_hooks(network: nn.Module) -> Iterator[Callable[..., Any]]:
    """Hooks on modules, but those that transformers leaves behind where hidden states were once requested."""
    for part in network.modules():
        for hooks in (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks):
            yield from (h for h in hooks.values() if not str(getattr(h, "__module__", "")).startswith("transformers."))


def length_groups(lengths: Tensor, *, positions: int = CPU_POSITIONS) -> list[Tensor]:
    """Rows [B] in groups of similar length, longest first, each of at most so many positions (or of eight rows).

    One group of all rows, in their order, on other devices than a CPU, where another pass costs more than padding.
    """
    count = len(lengths)
    if lengths.device.type != "cpu" or count == 0:
        return [torch.arange(count, device=lengths.device)]
    rest, groups = lengths.argsort(descending=True, stable=True), []
    while len(rest):
        size = max(8, positions // max(1, int(lengths[rest[0]])))
        groups.append(rest[:size])
        rest = rest[size:]
    return groups if len(groups) > 1 else [torch.arange(count)]


def in_groups(groups: list[Tensor], compute: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """``compute`` by group; its outputs [rows, S', ...] are padded to one S' with zeros, in the original order."""
    if len(groups) == 1:
        return compute(groups[0])
    parts = [compute(rows) for rows in groups]
    back = torch.cat(groups).argsort()
    return tuple(torch.cat(_same_length(layer))[back] for layer in zip(*parts, strict=True))


def _same_length(parts: tuple[Tensor, ...]) -> list[Tensor]:
    longest = max(part.shape[1] for part in parts)
    return [F.pad(part, (0, 0) * (part.ndim - 2) + (0, longest - part.shape[1])) for part in parts]
