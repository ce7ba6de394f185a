"""What counts as a difference: finite, and larger than the rounding of the numbers it was taken from.

One place for it, so that the t-test, the sign flips, the users' test and the equivalence test agree on what is zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genrec_unlearn_bench.errors import UsageError

__all__ = ["NO_DIFFERENCE", "SMALLEST_P", "BoolArray", "FloatArray", "IntArray", "clean", "never_zero", "table"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NO_DIFFERENCE = 1e-12
"""Magnitude up to which a difference is rounding: two means of the same 0/1 hits, added up in another order, differ
by about 1e-16; no metric of the suite is read to more than six digits."""

SMALLEST_P = float(np.finfo(np.float64).tiny)
"""The least p that is ever returned (2.2e-308). A p-value of 0 claims what no finite sample can show."""


def clean(differences: ArrayLike) -> FloatArray:
    """The same shape in float64: what is not finite becomes NaN (not measured), rounding noise exactly 0."""
    values = np.array(differences, dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    values[np.abs(values) <= NO_DIFFERENCE] = 0.0
    return values


def never_zero(p: ArrayLike) -> FloatArray:
    """p-values kept within [SMALLEST_P, 1]; NaN stays NaN."""
    return np.asarray(np.clip(np.asarray(p, dtype=np.float64), SMALLEST_P, 1.0))


def table(values: ArrayLike, what: str) -> FloatArray:
    """``values`` as a float64 table [K, S].

    Raises:
        UsageError: another number of dimensions than two.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise UsageError(f"{what} have to be a table [comparisons, seeds]", where=f"an array of shape {array.shape}")
    return array
