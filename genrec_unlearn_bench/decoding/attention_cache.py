"""Keys and values of attention, kept as computed: which of them belong to a beam, and how they lie in memory.

Beam search re-orders its beams on every level. Rather than re-ordering every layer's keys and values each time, a
session looks them up through ``Ancestry``, once a position and layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Ancestry", "mask_bias", "padded_heads", "padding_bias"]


_MULTIPLE = 8
"""Keys are padded to a multiple: on a CPU the product with 31 keys takes twice as long as with 32."""


class Ancestry:
    """Which entry of each earlier position each of B x W beams descends from. A new one has no positions."""

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


def padded_heads(parts: Tensor) -> Tensor:
    """[B, S, H, d] -> contiguous [B * H, S', d], zeros behind S."""
    batch, length, heads, width = parts.shape
    out = parts.new_zeros(batch, heads, length + -length % _MULTIPLE, width)
    out[:, :, :length] = parts.transpose(1, 2)
    return out.view(batch * heads, -1, width)


def padding_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """[B, S] mask -> [B, S'] what to add to the scores of keys padded by ``padded_heads``."""
    return mask_bias(torch.nn.functional.pad(mask.bool(), (0, -mask.shape[1] % _MULTIPLE)), dtype)


def mask_bias(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where ``seen``, the lowest number of the type elsewhere."""
    bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return bias.masked_fill_(~seen, torch.finfo(dtype).min)
