"""Sessions without a network: one with smooth logits, one whose log-probabilities are eighths, so that ties abound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genrec_unlearn_bench.decoding.trie import Trie

IntArray = NDArray[np.int64]


class RecurrentSession:
    """Log-probabilities from a small random recurrence."""

    def __init__(self, batch: int, vocabulary: int, *, seed: int = 0, width: int = 6) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.origin = torch.randn(batch, width, generator=draw, dtype=torch.float64)
        self.embedding = torch.randn(vocabulary, width, generator=draw, dtype=torch.float64)
        self.head = torch.randn(width, vocabulary, generator=draw, dtype=torch.float64)
        self.state = self.origin[:, None]

    def start_window(self, window: slice) -> Tensor:
        self.state = self.origin[:, None]
        return (self.origin @ self.head).float().log_softmax(-1)[..., window]

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        kept = self.state.gather(1, parents[..., None].expand(-1, -1, self.state.shape[-1]))
        self.state = torch.tanh(1.7 * kept.roll(1, -1) + self.embedding[tokens])
        return (self.state @ self.head).float().log_softmax(-1)[..., window]

    def score(self, history: int, tokens: Sequence[int]) -> float:
        """Sum of the tokens' log-probabilities, one at a time, in double precision."""
        state, total = self.origin[history], 0.0
        for token in tokens:
            total += float((state @ self.head).log_softmax(-1)[token])
            state = torch.tanh(1.7 * state.roll(1, -1) + self.embedding[token])
        return total


class LatticeSession:
    """Log-probabilities that are multiples of 1/8, so that sums are exact and many candidates tie."""

    def __init__(self, batch: int) -> None:
        self.origin = torch.arange(batch) * 101 + 7
        self.state = self.origin[:, None]

    def start_window(self, window: slice) -> Tensor:
        self.state = self.origin[:, None]
        return self._window(window)[:, 0]

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        self.state = (self.state.gather(1, parents) * 31 + tokens * 17 + 3) % 10007
        return self._window(window)

    def _window(self, window: slice) -> Tensor:
        tokens = torch.arange(window.start, window.stop)
        return -((self.state[..., None] * 13 + tokens * 29) % 101 % 4).float() / 8

    def log_probs(self, history: int, tokens: Sequence[int]) -> list[float]:
        """Log-probability of each token."""
        state, out = int(self.origin[history]), []
        for token in tokens:
            out.append(-((state * 13 + token * 29) % 101 % 4) / 8)
            state = (state * 31 + token * 17 + 3) % 10007
        return out


def beams_by_hand(
    session: LatticeSession, history: int, codes: IntArray, offsets: Sequence[int], beam: int
) -> list[tuple[tuple[int, ...], float]]:
    """Constrained beam search over Python sets, ties to the lowest codes: the definition, spelled out."""
    live: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for level in range(codes.shape[1]):
        grown = []
        for prefix, _ in live:
            for child in {tuple(int(c) for c in row[: level + 1]) for row in codes if (*row[:level],) == prefix}:
                tokens = [max(code, 0) + offset for code, offset in zip(child, offsets, strict=False)]
                steps = session.log_probs(history, tokens)
                grown.append((child, sum(step for step, code in zip(steps, child, strict=True) if code >= 0)))
        live = sorted(grown, key=lambda pair: (-pair[1], pair[0]))[:beam]
    return live


def sids_of(trie: Trie, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """[n, L] the SIDs of leaves [n]."""
    node = leaves
    columns = [trie.codes[-1][node]]
    for level in range(trie.levels - 2, -1, -1):
        node = np.searchsorted(trie.first_child[level], node, side="right") - 1
        columns.append(trie.codes[level][node])
    return np.stack(columns[::-1], axis=1)
