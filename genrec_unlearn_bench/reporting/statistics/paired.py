"""Do two methods differ? The paired t-test over seeds, its interval and an effect size, for many pairs at once.

The replicate is the training seed, which all methods share, so what is tested are differences within a seed. A test
over users would answer another question (users.py): on simulated nulls it calls equal methods different in up to half
of all cases once seeds move the metric (docs/statistics.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.reporting.statistics.differences import (
    BoolArray,
    FloatArray,
    IntArray,
    clean,
    never_zero,
    table,
)

__all__ = ["MeanIntervals", "PairedTests", "paired_tests", "t_interval"]

NO_SPREAD = 1e-12
"""A standard deviation below this share of the mean is rounding: all seeds say the same number."""


@dataclass(frozen=True, eq=False)
class MeanIntervals:
    """Mean, t interval and spread of K cells over their seeds."""

    mean: FloatArray
    """[K] NaN where no seed was measured."""
    low: FloatArray
    """[K] NaN below two seeds: one run has no interval."""
    high: FloatArray
    sd: FloatArray
    """[K] standard deviation over the seeds, n - 1 in its denominator; NaN below two seeds."""
    n: IntArray
    """[K] seeds that were measured."""


@dataclass(frozen=True, eq=False)
class PairedTests:
    """K comparisons of two methods over the seeds they share."""

    estimate: FloatArray
    """[K] mean difference, in the metric's unit."""
    low: FloatArray
    """[K] t interval of the mean difference."""
    high: FloatArray
    p: FloatArray
    """[K] two-sided, in [2.2e-308, 1], not corrected for the number of comparisons; NaN = no test."""
    effect: FloatArray
    """[K] Hedges' g of the differences: their mean over their standard deviation, corrected for few seeds."""
    n: IntArray
    """[K] seeds that both methods have."""
    exact: BoolArray
    """[K] all seeds differ by the same number, so there is no spread to build a t on; p is the sign-flip's."""


def t_interval(values: ArrayLike, *, confidence: float = 0.95) -> MeanIntervals:
    """Means over seeds with their t intervals (Student 1908).

    Args:
        values: [K, S] one row per cell; NaN = this seed was not measured.
        confidence: Coverage of the interval, in (0, 1).
    """
    return _intervals(table(values, "values"), confidence)


def paired_tests(differences: ArrayLike, *, confidence: float = 0.95) -> PairedTests:
    """Paired t-tests over seeds.

    Args:
        differences: [K, S] first method minus second, one row per pair and one column per seed; NaN = a seed that one
            of them lacks. Differences of at most 1e-12 are rounding and count as 0.
        confidence: Coverage of the interval, in (0, 1).

    Where the t-test has nothing to stand on:
        - fewer than two seeds: p, interval and effect are NaN, the estimate stays;
        - all differences 0: p = 1, effect 0, interval [0, 0];
        - all differences the same number but 0: ``exact``; p = 2 ** (1 - n), which is the least that the exact sign
          flip can reach and therefore never too small; interval [d, d]; the effect is NaN, as it has no spread.

    The effect is d_z, the mean difference over the standard deviation of the differences, times the exact correction
    J(n - 1) (Hedges 1981, eq. 6e; Lakens 2013 for the paired case). g_av, with the mean of the two methods' own
    spreads, would need them as well and would not be the quantity that the test is about. With two seeds J is 0 (no
    unbiased estimate exists), so the effect is NaN.
    """
    from scipy.special import stdtr

    values = clean(table(differences, "differences"))
    found = _intervals(values, confidence)
    n, df = found.n, np.maximum(found.n - 1, 1)
    zero = (n >= 2) & (np.nan_to_num(np.abs(values)).max(axis=1, initial=0.0) == 0.0)
    exact = (n >= 2) & (found.sd == 0.0) & ~zero
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = found.mean / found.sd
        corrected = ratio * _correction(df)
    p = 2.0 * stdtr(df, -np.abs(ratio * np.sqrt(n)))
    p = np.where(zero, 1.0, np.where(exact, 2.0 ** (1.0 - n), p))
    effect = np.where(n >= 3, corrected, np.nan)
    effect = np.where(zero, 0.0, np.where(exact, np.nan, effect))
    return PairedTests(
        estimate=found.mean,
        low=found.low,
        high=found.high,
        p=never_zero(np.where(n >= 2, p, np.nan)),
        effect=effect,
        n=n,
        exact=exact,
    )


def _intervals(values: FloatArray, confidence: float) -> MeanIntervals:
    from scipy.special import stdtrit

    finite = np.isfinite(values)
    n = finite.sum(axis=1).astype(np.int64)
    counted = np.maximum(n, 1)
    filled = np.where(finite, values, 0.0)
    mean = np.where(n > 0, filled.sum(axis=1) / counted, np.nan)
    residuals = np.where(finite, values - mean[:, None], 0.0)
    sd = np.sqrt((residuals**2).sum(axis=1) / np.maximum(n - 1, 1))
    lowest = np.where(finite, values, np.inf).min(axis=1, initial=np.inf)
    highest = np.where(finite, values, -np.inf).max(axis=1, initial=-np.inf)
    # A sum of equal numbers divided by their count may miss the number by a rounding error, which is no spread.
    constant = (n >= 1) & ((lowest == highest) | (sd <= NO_SPREAD * np.abs(mean)))
    mean = np.where((n >= 1) & (lowest == highest), lowest, mean)
    sd = np.where(n >= 2, np.where(constant, 0.0, sd), np.nan)
    half = stdtrit(np.maximum(n - 1, 1), 0.5 + confidence / 2.0) * sd / np.sqrt(counted)
    return MeanIntervals(mean=mean, low=mean - half, high=mean + half, sd=sd, n=n)


def _correction(df: IntArray) -> FloatArray:
    """[K] Hedges' J = Γ(m/2) / (√(m/2) Γ((m−1)/2)) for m degrees of freedom; 0 for one."""
    from scipy.special import gammaln

    m = np.maximum(df.astype(np.float64), 2.0)
    exact = np.exp(gammaln(m / 2.0) - gammaln((m - 1.0) / 2.0)) / np.sqrt(m / 2.0)
    return np.where(df >= 2, exact, 0.0)
