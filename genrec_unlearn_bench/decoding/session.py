"""The one thing beam search needs from a model: logits of the next token for B histories with W beams each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DecoderSession"]


class DecoderSession(Protocol):
    """B encoded histories, ready to be decoded token by token.

    What depends on the history alone (encoder output, cross-attention keys and values, the prompt's cache) is held
    once per history, never once per beam.
    """

    def start(self) -> Tensor:
        """[B, V] logits of the first SID token. Calling it again begins anew: all beams are forgotten."""

    def step(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """[B, W, V] logits of the next token.

        Args:
            parents: [B, W] which of the previous step's beams each beam continues.
            tokens: [B, W] vocabulary ids of the tokens just chosen.
        """
