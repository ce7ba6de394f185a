"""Prompts as token ids: histories laid out as left-padded rows, for SIDs and for titles alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Layout", "Prompt", "lay_out"]


@dataclass(frozen=True)
class Prompt:
    """Token ids around the items of a history.

    Attributes:
        head: In front of the first item; never empty.
        separator: Between two items.
        tail: Behind the last item.
        empty: Behind ``head``, in place of items and tail, where a history has no item.
    """

    head: tuple[int, ...]
    separator: tuple[int, ...]
    tail: tuple[int, ...]
    empty: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Layout:
    """B prompts of S positions, padded on the left.

    Attributes:
        tokens: [B, S] vocabulary ids; 0 where ``mask`` is False.
        mask: [B, S] True at real positions.
        items: [B, S] the item whose token stands there, -1 elsewhere.
        places: [B, S] that item's place in the history from 0, -1 elsewhere.
        levels: [B, S] the token's place in the item from 0, -1 elsewhere.
    """

    tokens: Tensor
    mask: Tensor
    items: Tensor
    places: Tensor
    levels: Tensor


def lay_out(prompt: Prompt, table: Tensor, items: Tensor) -> Layout:
    """Write histories as prompts.

    Args:
        table: [N, W] tokens of every item, -1 behind the end of a shorter one.
        items: [B, T] item ids, -1 behind the last one.
    """
    count, width = items.shape[0], table.shape[1]
    device = items.device
    filled = items >= 0
    body = table[items.clamp_min(0)].masked_fill(~filled[..., None], -1)  # [B, T, W]
    follows = torch.cat([filled[:, 1:], torch.zeros_like(filled[:, :1])], 1)[:, : items.shape[1]]
    gaps = _row(prompt.separator, device).expand(*items.shape, -1).masked_fill(~follows[..., None], -1)
    cells = torch.cat([body, gaps], 2)  # [B, T, W + s]
    step = cells.shape[2]
    level = torch.full((step,), -1, dtype=torch.long, device=device)
    level[:width] = torch.arange(width, device=device)
    at_item = level >= 0
    place = torch.arange(items.shape[1], device=device)[:, None].expand(-1, step).masked_fill(~at_item, -1)
    owner = items[..., None].expand(-1, -1, step).masked_fill(~at_item, -1)
    head = _row(prompt.head, device).expand(count, -1)
    tail = (
        _ends(prompt, device)[(~filled.any(1)).long()] if items.shape[1] else _ends(prompt, device)[1].expand(count, -1)
    )
    tokens = torch.cat([head, cells.flatten(1), tail], 1)
    rest = [
        _framed(values, head, tail)
        for values in (
            owner.flatten(1),
            place.flatten().expand(count, -1),
            level.repeat(items.shape[1]).expand(count, -1),
        )
    ]
    mask = tokens >= 0
    order = mask.long().argsort(dim=1, stable=True)[:, tokens.shape[1] - int(mask.sum(1).max()) :]
    tokens, mask, owner, places, levels = (values.gather(1, order) for values in (tokens, mask, *rest))
    hidden = ~mask
    return Layout(
        tokens.masked_fill(hidden, 0),
        mask,
        *(values.masked_fill(hidden, -1) for values in (owner, places, levels)),
    )


def _row(tokens: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(tokens, dtype=torch.long, device=device)


def _ends(prompt: Prompt, device: torch.device) -> Tensor:
    """[2, m] the tail, and what stands for an empty history, -1 behind their ends."""
    width = max(len(prompt.tail), len(prompt.empty))
    return torch.stack([_row((*end, *[-1] * (width - len(end))), device) for end in (prompt.tail, prompt.empty)])


def _framed(values: Tensor, head: Tensor, tail: Tensor) -> Tensor:
    return torch.cat([torch.full_like(head, -1), values, torch.full_like(tail, -1)], 1)
