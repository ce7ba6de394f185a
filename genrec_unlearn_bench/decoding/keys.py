"""Attention keys and values laid out for products: one matrix a head, padded to whole vectors.

On a CPU the product with 31 keys takes twice as long as with 32. The padding is blinded like that of a short history.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["blinded", "padded_blind", "padded_heads"]

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
