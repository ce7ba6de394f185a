"""Could this comparison have found anything? The least p it can reach, and the difference it would see.

Without it "n.s." has two meanings: no difference, or too few seeds to show one.
"""

from __future__ import annotations

from functools import cache
from math import sqrt

import numpy as np

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.statistics.paired import PairedTest, smallest_p

__all__ = ["detectable_difference", "smallest_attainable", "underpowered"]

REACH = 9.0
"""Standard deviations of the normal part that are integrated over; 1e-19 lies outside."""
GRID = 2001
PRECISION = 1e-10
"""Relative, of the noncentrality."""


def smallest_attainable(n: int, tests: int = 1, test: PairedTest = PairedTest.T) -> float:
    """The least Holm-corrected p that ``n`` seeds can give in a family of ``tests`` (the first step of Holm's)."""
    return min(1.0, smallest_p(n, test) * max(tests, 1))


def underpowered(n: int, tests: int = 1, test: PairedTest = PairedTest.T, *, alpha: float = 0.05) -> bool:
    """Whether the table says "underpowered": fewer than two seeds, or no result whatever could reach ``alpha``."""
    return n < 2 or smallest_attainable(n, tests, test) > alpha


def detectable_difference(sd: float, n: int, alpha: float = 0.05, *, power: float = 0.8) -> float:
    """The smallest true difference that the two-sided paired t-test finds with probability ``power``.

    Args:
        sd: Standard deviation of the differences over seeds.
        n: Seeds.
        alpha: Level of the single test; for a family's first Holm step, the family's level over its size.
        power: In (alpha, 1).

    Returns:
        In the metric's unit, from the noncentral t distribution (Cohen 1988, ch. 2); NaN below two seeds.

    Raises:
        UsageError: a power that is not between alpha and 1.
    """
    if not 0.0 < alpha < power < 1.0:
        raise UsageError("the power lies between alpha and 1", where=f"alpha {alpha}, power {power}")
    if n < 2 or not np.isfinite(sd):
        return float("nan")
    return _noncentrality(n - 1, alpha, power) * sd / sqrt(n)


@cache
def _noncentrality(df: int, alpha: float, power: float) -> float:
    """Where the two-sided t-test reaches ``power``, by halving."""
    from scipy.special import stdtrit

    bound = -float(stdtrit(df, alpha / 2.0))
    low, high = 0.0, 1.0
    while _rejected(df, high, bound) < power:
        low, high = high, 2.0 * high
    while high - low > PRECISION * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _rejected(df, middle, bound) < power else (low, middle)
    return high


def _rejected(df: int, shift: float, bound: float) -> float:
    """P(|T| > bound) for the noncentral t: the share of chi-square below df ((z + shift) / bound)², averaged over z.

    scipy's nctdtr gives NaN for exactly the shifts that few seeds and small levels need. The trapezoid rule is exact to
    rounding here, as the normal density brings both ends to nothing.
    """
    from scipy.special import chdtr

    z = np.linspace(-REACH, REACH, GRID)
    weights = np.exp(-(z**2) / 2.0)
    return float(weights @ chdtr(df, df * ((z + shift) / bound) ** 2) / weights.sum())
