"""Several targets on one history in one decoder pass: the cross-attention keys and values are projected once.

The targets of a history are laid end to end as one decoder sequence under a block-diagonal causal mask. Within a
block every relative position is what it would be alone, so that T5's position bias, and with it every number, is the
same as target by target.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["SharedTargets"]


@dataclass(frozen=True, eq=False)
class SharedTargets:
    """Where R targets of length L stand in B packed sequences of T slots.

    Attributes:
        rows, slots: [R] history of each target, and its slot there.
        width: T, most targets that a history has.
    """

    rows: Tensor
    slots: Tensor
    histories: int
    width: int

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
