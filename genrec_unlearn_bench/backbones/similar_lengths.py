"""A batch of histories through a network in groups of similar length, so that little of the work is padding.

Trainings draw batches whose histories are alike. Unlearning pairs forget and retain examples at random, and two thirds
of what a network reads then is padding (Industrial: histories of up to ten items, 3.4 on average). Every history is
computed as it would be alone, so a group is a matter of time and not of the result, but for the last bits.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["in_groups", "length_groups", "watched"]

CPU_POSITIONS = 1600
"""Positions of a group: activations of so many stay in the caches of a CPU (compare ``training.CPU_ITEMS``)."""


def watched(network: nn.Module) -> bool:
    """Whether somebody reads or changes what modules put out: then a batch has to pass through them as a whole.

    The hooks that transformers leaves behind where hidden states were once asked for do not count.
    """
    return any(
        not getattr(hook, "__module__", "").startswith("transformers.")
        for part in network.modules()
        for hooks in (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks)
        for hook in hooks.values()
    )


def length_groups(lengths: Tensor, *, positions: int = CPU_POSITIONS) -> list[Tensor]:
    """Rows [B] in groups of similar length, longest first, each of at most so many positions (or of eight rows).

    One group of all rows, in their order, on devices other than a CPU, where a pass more costs more than padding.
    """
    count = len(lengths)
    if lengths.device.type != "cpu" or count == 0:
        return [torch.arange(count, device=lengths.device)]
    order = lengths.argsort(descending=True, stable=True)
    groups, first = [], 0
    while first < count:
        size = max(8, positions // max(1, int(lengths[order[first]])))
        groups.append(order[first : first + size])
        first += size
    return groups if len(groups) > 1 else [torch.arange(count)]


def in_groups(groups: list[Tensor], compute: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """``compute`` group by group, its outputs [rows, S', ...] padded to one S' with zeros and put back in order."""
    if len(groups) == 1:
        return compute(groups[0])
    parts = [compute(rows) for rows in groups]
    back = torch.cat(groups).argsort()
    return tuple(torch.cat(_one_length(layer))[back] for layer in zip(*parts, strict=True))


def _one_length(parts: tuple[Tensor, ...]) -> list[Tensor]:
    longest = max(part.shape[1] for part in parts)
    return [
        part if part.shape[1] == longest else torch.cat([part, _zeros(part, longest - part.shape[1])], 1)
        for part in parts
    ]


def _zeros(part: Tensor, places: int) -> Tensor:
    return part.new_zeros(len(part), places, *part.shape[2:])
