"""Ranked items with their log-probabilities, the result of decoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Ranking:
    """B ranked lists of k items.

    Attributes:
        items: [B, k] int64 item ids, best first, -1 behind the last one when fewer than k could be decoded.
        log_probs: [B, k] float32 log-probability of the items' SIDs (sum over the L tokens, full-vocabulary
            softmax), -inf at unused places. Items that share a SID share its value and are in item order.
    """

    items: NDArray[np.int64]
    log_probs: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.items)

    def ranks(self, targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """[B] 1-based rank of each target, 0 where it is not in the list."""
        hits = self.items == targets[:, None]
        return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0).astype(np.int64)
