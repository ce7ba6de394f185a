"""Several targets behind one prompt in one pass: who sees whom, and at which position everyone stands.

Targets are laid end to end behind the prompt. Each sees the prompt and itself, none another, and each starts at the
position right behind the prompt, so that every number is what it would be target by target.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.shared_targets import SharedTargets

__all__ = ["Packing"]


@dataclass(frozen=True, eq=False)
class Packing:
    """Where R targets stand behind B prompts of S positions.

    Attributes:
        shared: Slots of the targets; the first of a target's L tokens is predicted from the prompt's last position, so
            that each takes L - 1 positions.
        mask: [B, 1, S + F, S + F] bool, True where a position may look; padded positions look at themselves.
        positions: [B, S + F] rotary positions.
    """

    shared: SharedTargets
    mask: Tensor
    positions: Tensor

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
