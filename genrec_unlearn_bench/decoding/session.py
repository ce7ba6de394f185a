"""The decoder that search runs on: next-token scores for B histories with W beams each.

Search needs a few hundred columns of the softmax and never the [B, W, V] logits. A session that can compute them
piecewise implements ``WindowedSession``; any other session is served from its logits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DecoderSession", "WindowedSession", "first_log_probs", "next_log_probs", "window_log_probs", "within"]


_OUTSIDE = -1e9
"""Logit of a token that a position cannot take: finite, so that no product with a zero probability is undefined."""

_CHUNK_ELEMENTS = 1 << 18
"""Logits held at a time on a CPU: one megabyte, so that the softmax reads them from cache."""

_CHUNK_ELEMENTS_ACCELERATOR = 1 << 26


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


@runtime_checkable
class WindowedSession(DecoderSession, Protocol):
    """A session that gives the log-probabilities of a range of tokens without holding all logits."""

    def start_window(self, window: slice) -> Tensor:
        """[B, n] log-probabilities of the tokens ``window`` as first SID token, softmax over the full vocabulary."""

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        """[B, W, n]; otherwise as ``step``."""


def first_log_probs(session: DecoderSession, window: slice) -> Tensor:
    """[B, n] float32 log-probabilities of the tokens ``window`` as first SID token."""
    if isinstance(session, WindowedSession):
        return session.start_window(window)
    return session.start().float().log_softmax(-1)[..., window]


def next_log_probs(session: DecoderSession, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
    """[B, W, n] float32 log-probabilities of the tokens ``window`` behind the beams just chosen."""
    if isinstance(session, WindowedSession):
        return session.step_window(parents, tokens, window)
    return session.step(parents, tokens).float().log_softmax(-1)[..., window]


def window_log_probs(hidden: Tensor, head: Callable[[Tensor], Tensor], vocabulary: int, window: slice) -> Tensor:
    """[..., n] float32: columns ``window`` of log_softmax(head(hidden)), a few rows at a time.

    Args:
        hidden: [..., D] final hidden states.
        head: Maps [R, D] to logits [R, V].
        vocabulary: V.
        window: Range of token ids, with a start and a stop.
    """
    import torch

    rows = hidden.reshape(-1, hidden.shape[-1])
    budget = _CHUNK_ELEMENTS if hidden.device.type == "cpu" else _CHUNK_ELEMENTS_ACCELERATOR
    chunk = max(64, budget // vocabulary)
    out = torch.empty(len(rows), window.stop - window.start, dtype=torch.float32, device=hidden.device)
    for first in range(0, len(rows), chunk):
        logits = head(rows[first : first + chunk]).float()
        out[first : first + chunk] = logits.log_softmax(-1)[:, window]
    return out.view(*hidden.shape[:-1], -1)


def within(logits: Tensor, window: slice) -> Tensor:
    """Lower logits [..., V] outside ``window`` so far that the softmax is that of the window alone."""
    import torch

    columns = torch.arange(logits.shape[-1], device=logits.device)
    outside = (columns < window.start) | (columns >= window.stop)
    return logits.masked_fill(outside, max(_OUTSIDE, torch.finfo(logits.dtype).min))
