"""The mean of user values, as every USER-level metric reports it: value, n and standard deviation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue

__all__ = ["user_mean"]


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
    bounds = None
    if interval and sd is not None:
        # scipy.stats has the same quantile, but takes seconds to import.
        from scipy.special import stdtrit

        half = float(stdtrit(n - 1, 0.975)) * sd / float(np.sqrt(n))
        bounds = (mean - half, mean + half)
    return MetricValue(metric=metric, group=group, value=mean, beam=beam, n=n, sd=sd, interval=bounds, note=note)
