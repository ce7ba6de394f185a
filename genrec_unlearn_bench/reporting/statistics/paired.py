"""Tests of two methods over the training seeds they share: paired t, exact sign flips, Holm's correction, and power.

The replicate is the training seed, so what is tested are differences within a seed. A test over users answers another
question (users.py): on simulated nulls it calls equal methods different in up to half of all cases once seeds move the
metric (docs/statistics.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genrec_unlearn_bench.errors import UsageError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NO_DIFFERENCE = 1e-12
"""Magnitude up to which a difference is rounding: two means of the same 0/1 hits, added up in another order, differ
by about 1e-16; no metric of the suite is read to more than six digits."""
NO_SPREAD = 1e-12
"""A standard deviation below this share of the mean is rounding."""
SMALLEST_P = float(np.finfo(np.float64).tiny)
"""The least p that is ever returned (2.2e-308). A p-value of 0 claims what no finite sample can show."""
MOST_SEEDS = 16
"""Beyond these 2^S sign patterns are too many to enumerate, and the t-test has lost its weakness for skew."""
TIE = 1e-9
"""Share of the largest possible sum by which two sums may differ and still be one: they are added in another order."""


def clean(differences: ArrayLike) -> FloatArray:
    """The same shape in float64: what is not finite becomes NaN (not measured), rounding noise exactly 0."""
    values = np.array(differences, dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    values[np.abs(values) <= NO_DIFFERENCE] = 0.0
    return values


def never_zero(p: ArrayLike) -> FloatArray:
    """p-values kept within [SMALLEST_P, 1]; NaN stays NaN."""
    return np.asarray(np.clip(np.asarray(p, dtype=np.float64), SMALLEST_P, 1.0))


@dataclass(frozen=True, eq=False)
class MeanIntervals:
    """Mean, t interval and standard deviation (n - 1) of K cells over their n measured seeds, each [K].

    The mean is NaN where no seed was measured, the others are below two seeds.
    """

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    sd: FloatArray
    n: IntArray


@dataclass(frozen=True, eq=False)
class PairedTests:
    """K comparisons of two methods over the n seeds they share, each [K]: mean difference with its t interval, p, and
    Hedges' g of the differences as effect. p is two-sided and not corrected for the number of comparisons; NaN = no
    test."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    effect: FloatArray
    n: IntArray
    exact: BoolArray
    """All seeds differ by the same number, so there is no spread to build a t on; p is the sign-flip's."""


def t_interval(values: ArrayLike, *, confidence: float = 0.95) -> MeanIntervals:
    """Means over seeds with their t intervals (Student 1908).

    Args:
        values: [K, S] one row per cell; NaN = this seed was not measured.
    """
    from scipy.special import stdtrit

    values = np.asarray(values, dtype=np.float64)
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


def paired_tests(differences: ArrayLike, *, confidence: float = 0.95) -> PairedTests:
    """Paired t-tests over seeds.

    Args:
        differences: [K, S] first method minus second by pair and seed; NaN = a seed that one of them lacks. Up to
            1e-12 they are rounding and count as 0.

    Where the t-test has nothing to stand on:
        - fewer than two seeds: p, interval and effect are NaN, the estimate stays;
        - all differences 0: p = 1, effect 0, interval [0, 0];
        - all differences the same number but 0: ``exact``; p = 2 ** (1 - n), which is the least that the exact sign
          flip can reach and therefore never too small; interval [d, d]; the effect is NaN, as it has no spread.

    The effect is d_z, the mean difference over the standard deviation of the differences, times the exact correction
    J(n - 1) (Hedges 1981, eq. 6e; Lakens 2013 for the paired case). With two seeds J is 0 (no unbiased estimate
    exists), so the effect is NaN.
    """
    from scipy.special import stdtr

    values = clean(differences)
    found = t_interval(values, confidence=confidence)
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
    return PairedTests(found.mean, found.low, found.high, never_zero(np.where(n >= 2, p, np.nan)), effect, n, exact)


def _correction(df: IntArray) -> FloatArray:
    """[K] Hedges' J = Γ(m/2) / (√(m/2) Γ((m−1)/2)) for m degrees of freedom; 0 for one."""
    from scipy.special import gammaln

    m = np.maximum(df.astype(np.float64), 2.0)
    exact = np.exp(gammaln(m / 2.0) - gammaln((m - 1.0) / 2.0)) / np.sqrt(m / 2.0)
    return np.where(df >= 2, exact, 0.0)


def sign_flip(differences: ArrayLike) -> FloatArray:
    """Two-sided p-values by enumeration: the share of sign patterns whose sum is at least as far from 0.

    Args:
        differences: [K, S] first method minus second; NaN = a seed that one of them lacks.

    Returns:
        [K] multiples of 2 ** (1 - n) for n measured seeds; NaN where no seed is measured, or more than 16 are.
    """
    values = clean(differences)
    p = np.full(len(values), np.nan)
    for place, row in enumerate(values):
        measured = row[np.isfinite(row)]
        if 1 <= len(measured) <= MOST_SEEDS:
            # Turning every sign leaves the distance from 0 as it is, so one half of the patterns stands for both.
            bits = np.arange(1 << (len(measured) - 1))
            signs = 1.0 - 2.0 * ((bits[:, None] >> np.arange(len(measured))) & 1)
            least = abs(measured.sum()) - TIE * np.abs(measured).sum()
            p[place] = (np.abs(signs @ measured) >= least).mean()
    return p


def smallest_p(n: int, *, sign_flip: bool = False) -> float:
    """The least two-sided p that ``n`` seeds can give, before any correction.

    2 ** (1 - n) for the sign flip; SMALLEST_P for the t-test, which has none. 1 below two seeds: there is no test.
    """
    if n < 2:
        return 1.0
    return 2.0 ** (1 - n) if sign_flip else SMALLEST_P


def holm(p: ArrayLike) -> FloatArray:
    """Adjusted p-values (Holm 1979): the i-th smallest of m times m - i + 1, never falling, at most 1.

    Args:
        p: [K] the family's p-values in [0, 1]; NaN = no test was made, which does not count towards the family.
    """
    values = np.asarray(p, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted = np.full(values.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted


def detectable_difference(sd: float, n: int, alpha: float = 0.05, *, power: float = 0.8) -> float:
    """The smallest true difference that the two-sided paired t-test finds with probability ``power``.

    Args:
        sd: Standard deviation of the differences over seeds.
        n: Seeds.
        alpha: Level of the single test; for a family's first Holm step, the family's level over its size.
        power: In (alpha, 1), else a UsageError.

    Returns:
        In the metric's unit, from the noncentral t distribution (Cohen 1988, ch. 2); NaN below two seeds.
    """
    if not 0.0 < alpha < power < 1.0:
        raise UsageError("the power lies between alpha and 1", where=f"alpha {alpha}, power {power}")
    if n < 2 or not np.isfinite(sd):
        return float("nan")
    return _noncentrality(n - 1, alpha, power) * sd / sqrt(n)


@cache
def _noncentrality(df: int, alpha: float, power: float) -> float:
    """Where the two-sided t-test reaches ``power``.

    P(|T| > bound) is the share of chi-square below df ((z + shift) / bound)², averaged over z, as scipy's nctdtr gives
    NaN for exactly the shifts that few seeds and small levels need. The trapezoid rule is exact to rounding here, as
    the normal density brings both ends to nothing.
    """
    from scipy.optimize import brentq
    from scipy.special import chdtr, stdtrit

    bound = -float(stdtrit(df, alpha / 2.0))
    z = np.linspace(-9.0, 9.0, 2001)
    weights = np.exp(-(z**2) / 2.0)

    def missing(shift: float) -> float:
        return float(weights @ chdtr(df, df * ((z + shift) / bound) ** 2) / weights.sum()) - power

    high = 1.0
    while missing(high) < 0.0:
        high *= 2.0
    return float(brentq(missing, 0.0, high))
