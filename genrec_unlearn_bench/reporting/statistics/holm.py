"""How many of these p-values hold together? Holm's step-down correction over a declared family.

It keeps the family-wise error under any dependence between the tests, which comparisons that share seeds, users and a
baseline surely have.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.statistics.differences import FloatArray

__all__ = ["holm"]


def holm(p: ArrayLike) -> FloatArray:
    """Adjusted p-values (Holm 1979): the i-th smallest of m times m - i + 1, never falling, at most 1.

    Args:
        p: [K] the family's p-values in [0, 1]; NaN = no test was made, which does not count towards the family.

    Raises:
        UsageError: not one row of p-values, or one outside [0, 1].
    """
    values = np.asarray(p, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    if values.ndim != 1 or np.any((values[tested] < 0.0) | (values[tested] > 1.0)):
        raise UsageError("a family is one row of p-values between 0 and 1", where=f"an array of shape {values.shape}")
    order = tested[np.argsort(values[tested], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted = np.full(values.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return adjusted
