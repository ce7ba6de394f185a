"""Which entry of each earlier position every live beam descends from.

Beam search re-orders its beams on every level. Rather than re-ordering every layer's keys and values each time, a
session keeps them as computed and looks them up through these indices, once a position and layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Ancestry", "blinded", "padded_blind", "padded_heads"]


class Ancestry:
    """The descent of B x W beams, position by position. A new one knows of no positions."""

    def __init__(self) -> None:
        self._places: list[Tensor] = []
        self._widths: list[int] = []

    def advance(self, parents: Tensor) -> None:
        """Begin a position whose beams [B, W] continue ``parents`` of the position before."""
        self._places = [places.gather(1, parents) for places in self._places]
        own = torch.arange(parents.shape[1], device=parents.device)
        self._places.append(own.expand_as(parents))
        self._widths.append(parents.shape[1])

    def __len__(self) -> int:
        """Number of positions so far, the newest included."""
        return len(self._places)

    def rows(self) -> list[Tensor]:
        """For each position but the newest: [B * W] rows into what was stored there as [B * W', ...]."""
        out = []
        for places, width in zip(self._places[:-1], self._widths[:-1], strict=True):
            batch = torch.arange(len(places), device=places.device)[:, None]
            out.append((places + batch * width).flatten())
        return out


_MULTIPLE = 8


def padded_heads(parts: Tensor) -> Tensor:
    """[B, S, H, d] -> contiguous [B * H, S', d], zeros behind S."""
    batch, length, heads, width = parts.shape
    out = parts.new_zeros(batch, heads, length + -length % _MULTIPLE, width)
    out[:, :, :length] = parts.transpose(1, 2)
    return out.view(batch * heads, -1, width)


def padded_blind(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """[B, S] mask -> [B, S'] what to add to the scores of padded keys."""
    return blinded(torch.nn.functional.pad(mask.bool(), (0, -mask.shape[1] % _MULTIPLE)), dtype)


def blinded(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where ``seen``, the lowest number of the type elsewhere."""
    bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return bias.masked_fill_(~seen, torch.finfo(dtype).min)
