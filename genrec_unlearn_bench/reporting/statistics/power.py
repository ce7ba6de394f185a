"""Could this comparison have found anything? The least p it can reach, and the difference it would see.

Without it "n.s." has two meanings: no difference, or too few seeds to show one.
"""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.statistics.sign_flip import PairedTest, smallest_p

__all__ = ["detectable_difference", "smallest_attainable", "underpowered"]

STEPS = 200
"""Halvings of the search for the noncentrality; a double has fewer bits."""


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
    from scipy.special import nctdtr, stdtrit

    if not 0.0 < alpha < power < 1.0:
        raise UsageError("the power lies between alpha and 1", where=f"alpha {alpha}, power {power}")
    if n < 2 or not np.isfinite(sd):
        return float("nan")
    df = n - 1
    bound = -float(stdtrit(df, alpha / 2.0))

    def reached(shift: float) -> float:
        return float(1.0 - nctdtr(df, shift, bound) + nctdtr(df, shift, -bound))

    low, high = 0.0, 1.0
    while reached(high) < power:
        low, high = high, 2.0 * high
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if reached(middle) < power else (low, middle)
    return high * sd / float(np.sqrt(n))
