"""The companion of the t-test that assumes no normal distribution: exact sign flips over seeds.

Under the null a difference is as likely to have either sign (Fisher 1935), so all 2^S sign patterns are enumerated. It
needs six seeds to reach 5 % at all, which is why it stands beside the t-test and not in its place.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.errors import UsageError
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
        differences: [K, S] first method minus second, S ≤ 16; NaN = a seed that one of them lacks. A missing seed and
            a difference of 0 are the same to it: flipping either changes nothing.

    Returns:
        [K] a multiple of 2 ** (1 - n), at least that; 1 where all differences are 0; NaN where no seed is measured.

    Raises:
        UsageError: more than 16 seeds.
    """
    values = clean(table(differences, "differences"))
    rows, seeds = values.shape
    if seeds > MOST_SEEDS:
        raise UsageError(
            f"the exact sign flip enumerates up to {MOST_SEEDS} seeds, these are {seeds}",
            mend="leave it out, the t-test needs no companion there; or name the seeds to compare",
        )
    filled = np.nan_to_num(values)
    # Turning every sign leaves the distance from 0 as it is, so one half of the patterns stands for both.
    bits = np.arange(1 << max(seeds - 1, 0))
    signs = 1.0 - 2.0 * ((bits[:, None] >> np.arange(seeds)[None, :]) & 1)
    p = np.empty(rows)
    step = max(1, CHUNK // len(bits))
    for start in range(0, rows, step):
        part = filled[start : start + step]
        reach = np.abs(part).sum(axis=1)
        observed = np.abs(part.sum(axis=1))
        flipped = np.abs(part @ signs.T)
        p[start : start + step] = (flipped >= (observed - TIE * reach)[:, None]).mean(axis=1)
    p[~np.isfinite(values).any(axis=1)] = np.nan
    return p


def smallest_p(n: int, test: PairedTest = PairedTest.T) -> float:
    """The least two-sided p that ``n`` seeds can give, before any correction.

    2 ** (1 - n) for the sign flip. The t-test has no least p from two seeds up (the smallest positive number stands
    for it). Below that there is no test: 1.
    """
    if n < 2:
        return 1.0
    return 2.0 ** (1 - n) if test is PairedTest.SIGN_FLIP else SMALLEST_P
