"""Prices cut into bands of nearly equal size, equal prices always in the same band."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray

__all__ = ["NO_BAND", "price_bands", "valid_prices"]

NO_BAND = 0
"""The band of an item without a valid price; bands themselves count from 1."""


def valid_prices(prices: NDArray[np.float64]) -> BoolArray:
    """[N] which prices count: finite and not negative. 0 ("free") is a price, the cheapest there is."""
    return np.isfinite(prices) & (prices >= 0)


def price_bands(prices: NDArray[np.float64], bands: int) -> IntArray:
    """Quantile bands of the valid prices.

    Boundary k (of ``bands - 1``) is set between two different prices, where the share of items below comes nearest
    to ``k / bands`` (the lower of two equally near places), moved only as far as it takes to leave no band empty. So
    items of one price are never parted, free items all lie in band 1 (which may thus be the largest), and without ties
    the bands differ by one item at most.

    Args:
        prices: [N], NaN where unknown.
        bands: How many.

    Returns:
        [N] band from 1 (cheapest) to ``bands``, ``NO_BAND`` where the price is not valid.

    Raises:
        ValueError: Fewer different prices than bands.
    """
    valid = valid_prices(prices)
    distinct, rank, sizes = np.unique(prices[valid], return_inverse=True, return_counts=True)
    if len(distinct) < bands:
        raise ValueError(f"{len(distinct)} different prices cannot make {bands} bands")
    below = np.cumsum(sizes)  # items at or below each price: a boundary lies behind a price
    total = int(below[-1])
    behind: list[int] = []
    for k in range(1, bands):
        # Integers throughout: the place must not depend on rounding. `k * total / bands` items should lie below.
        distance = np.abs(below * bands - k * total)
        first = behind[-1] + 1 if behind else 0
        last = len(distinct) - 1 - (bands - k)
        behind.append(first + int(np.argmin(distance[first : last + 1])))
    out = np.full(len(prices), NO_BAND, dtype=np.int64)
    out[valid] = 1 + np.searchsorted(np.asarray(behind, dtype=np.int64), rank, side="left")
    return out
