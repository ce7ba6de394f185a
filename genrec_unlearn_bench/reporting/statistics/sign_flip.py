"""The companion of the t-test that assumes no normal distribution: exact sign flips over seeds.

Under the null a difference is as likely to have either sign (Fisher 1935), so all 2^S sign patterns are enumerated. It
needs six seeds to reach 5 % at all, which is why it stands beside the t-test and not in its place.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.reporting.statistics.differences import SMALLEST_P, FloatArray, clean, table

__all__ = ["MOST_SEEDS", "PairedTest", "sign_flip", "smallest_p"]

MOST_SEEDS = 16
"""Beyond these 2^S sign patterns are too many to enumerate, and the t-test has lost its weakness for skew."""
TIE = 1e-9
"""Share of the largest possible sum by which two sums may differ and still be one: they are added in another order."""
CHUNK = 1 << 22
"""Numbers held at a time."""


class PairedTest(StrEnum):
    """The two tests over seeds."""

    T = "paired t"
    SIGN_FLIP = "sign flip"


def sign_flip(differences: ArrayLike) -> FloatArray:
    """Two-sided p-values by enumeration: the share of sign patterns whose sum is at least as far from 0.

    Args:
        differences: [K, S] first method minus second; NaN = a seed that one of them lacks.

    Returns:
        [K] a multiple of 2 ** (1 - n) for n measured seeds, at least that; 1 where all differences are 0. NaN where no
        seed is measured, or more than 16 are.
    """
    values = clean(table(differences, "differences"))
    measured = np.isfinite(values)
    n = measured.sum(axis=1)
    p = np.full(len(values), np.nan)
    # What is missing goes to the right of each row, to be cut off.
    values = np.take_along_axis(values, np.argsort(~measured, axis=1, kind="stable"), axis=1)
    for seeds in np.unique(n):
        if 1 <= seeds <= MOST_SEEDS:
            p[n == seeds] = _enumerated(values[n == seeds, :seeds])
    return p


def _enumerated(values: FloatArray) -> FloatArray:
    """[K] p of [K, n] differences without gaps."""
    rows, seeds = values.shape
    # Turning every sign leaves the distance from 0 as it is, so one half of the patterns stands for both.
    bits = np.arange(1 << (seeds - 1))
    signs = 1.0 - 2.0 * ((bits[:, None] >> np.arange(seeds)[None, :]) & 1)
    p = np.empty(rows)
    step = max(1, CHUNK // len(bits))
    for start in range(0, rows, step):
        part = values[start : start + step]
        reach = np.abs(part).sum(axis=1)
        observed = np.abs(part.sum(axis=1))
        flipped = np.abs(part @ signs.T)
        p[start : start + step] = (flipped >= (observed - TIE * reach)[:, None]).mean(axis=1)
    return p


def smallest_p(n: int, test: PairedTest = PairedTest.T) -> float:
    """The least two-sided p that ``n`` seeds can give, before any correction.

    2 ** (1 - n) for the sign flip. The t-test has no least p from two seeds up (the smallest positive number stands
    for it). Below that there is no test: 1.
    """
    if n < 2:
        return 1.0
    return 2.0 ** (1 - n) if test is PairedTest.SIGN_FLIP else SMALLEST_P
