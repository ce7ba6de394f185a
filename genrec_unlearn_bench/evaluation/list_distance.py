"""How far two ranked lists lie apart: Jensen-Shannon divergence of what they serve, and the share of changed items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from genrec_unlearn_bench.decoding.ranking import Ranking

__all__ = ["jensen_shannon", "list_change"]

FloatArray = NDArray[np.float64]
CHUNK = 512
"""Rows compared at a time: [rows, k, k] comparisons are held in memory."""


def jensen_shannon(first: Ranking, second: Ranking) -> FloatArray:
    """[B] Jensen-Shannon divergence in bits, in [0, 1], of the distributions that two decoded lists stand for.

    The distribution of a list: its items with the probabilities they were decoded with, and one bucket ``rest`` with
    what is left of 1 (items and invalid codes beyond the list). An item that stands in one list alone has
    probability 0 in the other one. So the value is 0 exactly when both lists serve the same items with the same
    probabilities, and 1 when they share nothing and neither leaves any rest. An item that drops just out of the
    list counts with its whole (small) probability, in the forget drop and in the random drop alike.

    Items that share a SID repeat its probability; where a list then sums to more than 1, it is scaled to 1.
    """
    out = np.zeros(len(first))
    for start in range(0, len(first), CHUNK):
        rows = slice(start, start + CHUNK)
        left, right = first.items[rows], second.items[rows]
        p, q = _probabilities(first.log_probs[rows], left), _probabilities(second.log_probs[rows], right)
        same = (left[:, :, None] == right[:, None, :]) & (left >= 0)[:, :, None]
        q_of_left = (same * q[:, None, :]).sum(axis=2)
        # Half of q * log2(q / (q / 2)).
        only_right = 0.5 * np.where(same.any(axis=1), 0.0, q).sum(axis=1)
        rest = _term(_rest(p), _rest(q))
        out[rows] = _term(p, q_of_left).sum(axis=1) + only_right + rest
    return np.clip(out, 0.0, 1.0)


def list_change(first: Ranking, second: Ranking, k: int = 10) -> FloatArray:
    """[B] 1 - overlap@k: share of the first k places that the other list does not have, in [0, 1].

    The longer of the two lists is the denominator; two empty lists have not changed.
    """
    left, right = first.items[:, :k], second.items[:, :k]
    common = ((left[:, :, None] == right[:, None, :]) & (left >= 0)[:, :, None]).any(axis=2).sum(axis=1)
    longer = np.maximum((left >= 0).sum(axis=1), (right >= 0).sum(axis=1))
    return np.where(longer > 0, 1.0 - common / np.maximum(longer, 1), 0.0)


def _probabilities(log_probs: NDArray[np.float32], items: NDArray[np.int64]) -> FloatArray:
    chances = np.where(items >= 0, np.exp(log_probs.astype(np.float64)), 0.0)
    return np.asarray(chances / np.maximum(chances.sum(axis=1, keepdims=True), 1.0))


def _rest(chances: FloatArray) -> FloatArray:
    return np.asarray(np.maximum(1.0 - chances.sum(axis=1), 0.0))


def _term(p: FloatArray, q: FloatArray) -> FloatArray:
    """Contribution of cells with probabilities p and q, 0 log 0 being 0."""
    middle = np.where(p + q > 0, (p + q) / 2, 1.0)
    left = p * np.log2(np.where(p > 0, p, middle) / middle)
    right = q * np.log2(np.where(q > 0, q, middle) / middle)
    return np.asarray(0.5 * (left + right))
