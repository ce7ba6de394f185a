"""Do these two checkpoints differ? Seeded sign flips over users, and only that question.

The users are resampled and the two trained models held fixed, so the answer says nothing about what another training
seed would give: a claim about methods needs paired.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.reporting.statistics.paired import TIE, FloatArray, clean
from genrec_unlearn_bench.seeding import numpy_generator

CLAIM = "these two checkpoints, not these two methods"


@dataclass(frozen=True)
class UserComparison:
    """Two checkpoints on the same test rows."""

    estimate: float
    """Mean over the rows of first minus second, with an interval from the spread between users; NaN without them."""
    low: float
    high: float
    p: float
    """(c + 1) / (B + 1): c of B random sign patterns give a sum at least as far from 0. NaN without rows."""
    rows: int
    users: int
    permutations: int


def compare_users(
    first: ArrayLike,
    second: ArrayLike,
    clusters: ArrayLike,
    *,
    seed: int,
    permutations: int = 10_000,
    confidence: float = 0.95,
) -> UserComparison:
    """Compare two checkpoints on the same rows of their per-user tables.

    Args:
        first: [M] the first checkpoint's value on each test row; NaN = not measured (the row is left out).
        second: [M] the second's, on the same rows in the same order.
        clusters: [M] whom each row belongs to. All rows of a user keep one sign, because they are not independent.
        seed: Of the sign patterns; the same seed gives the same p on every machine.

    The p-value counts the observed pattern among the random ones, so it is valid at any B and never 0 (Phipson and
    Smyth 2010). The interval is the cluster-robust t interval of the mean (users - 1 degrees of freedom; Cameron and
    Miller 2015, sec. II), not the test turned around. At the border p and interval may disagree; p decides.
    """
    values, owners = clean(np.subtract(first, second, dtype=np.float64)), np.asarray(clusters)
    measured = np.isfinite(values)
    values = values[measured]
    rows = len(values)
    _, index = np.unique(owners[measured], return_inverse=True)
    sums = np.bincount(index, weights=values)
    if not rows:
        return UserComparison(np.nan, np.nan, np.nan, np.nan, 0, 0, permutations)
    estimate = float(values.mean())
    half = _half_width(sums - estimate * np.bincount(index), rows, confidence)
    hits = _as_far(sums[sums != 0.0], seed, permutations)
    p = (hits + 1) / (permutations + 1)
    return UserComparison(estimate, estimate - half, estimate + half, p, rows, len(sums), permutations)


def _half_width(residuals: FloatArray, rows: int, confidence: float) -> float:
    """Half of the cluster-robust interval; ``residuals`` [U] each user's sum less what the mean expects of it."""
    from scipy.special import stdtrit

    users = len(residuals)
    if users < 2:
        return float("nan")
    variance = users / (users - 1) * float(residuals @ residuals) / rows**2
    return float(stdtrit(users - 1, 0.5 + confidence / 2.0)) * float(np.sqrt(variance))


def _as_far(sums: FloatArray, seed: int, permutations: int) -> int:
    """How many of the random sign patterns of ``sums`` [U] lie at least as far from 0 as the observed one.

    Users without a difference were left out: their sign changes nothing, and they are the most.
    """
    if not len(sums):
        return permutations
    generator = numpy_generator(seed, "user sign flips")
    total = float(sums.sum())
    least = abs(total) - TIE * float(np.abs(sums).sum())
    hits = 0
    for _ in range(permutations):
        # Whole 64-bit words, so that the byte order moves no sign.
        drawn = generator.integers(0, 1 << 64, size=-(-len(sums) // 64), dtype=np.uint64).astype("<u8")
        kept = np.unpackbits(drawn.view(np.uint8), count=len(sums), bitorder="little")
        hits += bool(abs(2.0 * (kept @ sums) - total) >= least)
    return hits
