"""The mean of user values, as every USER-level metric reports it: value, n and standard deviation; and t intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue

__all__ = ["difference_interval", "mean_interval", "user_mean"]


def user_mean(
    metric: str,
    group: Group,
    values: NDArray[np.float64],
    *,
    beam: int | None,
    empty: str = "no test examples in this group",
    note: str | None = None,
    interval: bool = False,
) -> MetricValue:
    """Average the finite entries of ``values`` [M]; NaN marks an example for which nothing was measured.

    The standard deviation has n - 1 in its denominator and needs two examples. ``interval`` adds the 95 % t interval
    of the mean. With nothing to average the value is None and the note says ``empty``.
    """
    measured = values[np.isfinite(values)]
    n = len(measured)
    if n == 0:
        return MetricValue(metric=metric, group=group, value=None, beam=beam, n=0, note=empty)
    mean = float(measured.mean())
    sd = float(measured.std(ddof=1)) if n > 1 else None
    bounds = mean_interval(measured) if interval else None
    return MetricValue(metric=metric, group=group, value=mean, beam=beam, n=n, sd=sd, interval=bounds, note=note)


def mean_interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """The 95 % t interval of the mean of finite values [n]; None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    mean, half = float(values.mean()), _t(n - 1) * float(values.std(ddof=1)) / float(np.sqrt(n))
    return mean - half, mean + half


def difference_interval(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float] | None:
    """Welch's 95 % interval of mean(one) - mean(other), finite values of different examples; None where either has
    fewer than two."""
    if min(len(one), len(other)) < 2:
        return None
    middle = float(one.mean()) - float(other.mean())
    errors = [float(values.var(ddof=1)) / len(values) for values in (one, other)]
    total = sum(errors)
    if total == 0:
        return middle, middle
    freedom = total**2 / sum(error**2 / (len(values) - 1) for error, values in zip(errors, (one, other), strict=True))
    half = _t(freedom) * float(np.sqrt(total))
    return middle - half, middle + half


def _t(freedom: float) -> float:
    # scipy.stats has the same quantile, but takes seconds to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))
