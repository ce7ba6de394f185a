"""Do two models' truth ratios have one distribution? The two-sample Kolmogorov-Smirnov test, with scipy's p-value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["Distance", "distance", "p_value"]

FloatArray = NDArray[np.float64]

RESAMPLES = 1000


@dataclass(frozen=True)
class Distance:
    """A Kolmogorov-Smirnov distance D with its 95 % interval, its p-value, and the examples n in each sample."""

    d: float
    low: float
    high: float
    p: float
    n: int


def distance(first: FloatArray, second: FloatArray) -> Distance:
    """Between two models' values [n] of the same examples, in the same order.

    The p-value is that of independent samples, as in TOFU. Samples of the same examples go together, so that two
    models that answer alike get larger ones than a uniform p.

    The interval is D -+ the 95 % point of the largest error of F - G anywhere, by bootstrap over examples (pairs stay
    together). The error of a largest distance is never above that. D's own percentiles would not do: resampling can
    only push a maximum up where both distributions agree.
    """
    from scipy.stats import ks_2samp

    n = len(first)
    values = np.unique(np.concatenate([first, second]))
    steps = (first[:, None] <= values).astype(np.float64) - (second[:, None] <= values)  # [n, values]
    between = steps.mean(axis=0)
    drawn = numpy_generator(0, "forget-quality", "distance").multinomial(n, np.full(n, 1 / n), size=RESAMPLES) / n
    half = float(np.quantile(np.abs(drawn @ steps - between).max(axis=1), 0.95))
    found = ks_2samp(first, second)
    d = float(found.statistic)
    return Distance(d, max(0.0, d - half), min(1.0, d + half), float(found.pvalue), n)


def p_value(first: FloatArray, second: FloatArray) -> float:
    """Of two independent samples."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(first, second).pvalue)
