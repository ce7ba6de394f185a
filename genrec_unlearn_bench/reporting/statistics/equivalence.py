"""Is a method as good as retraining? Two one-sided tests against a margin that retraining itself sets.

"Not significantly different" is no evidence of forgetting, least of all with few seeds: equivalence has to be shown,
and where it is not, the verdict says no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.reporting.statistics.differences import clean, never_zero
from genrec_unlearn_bench.reporting.statistics.paired import t_interval

__all__ = ["LEAST_ORACLES", "LEVEL", "Equivalence", "Verdict", "margin", "tost"]

LEAST_ORACLES = 3
"""Retrained seeds a margin needs. Two give one difference, whose quantile is itself: on average 0.4 of the margin they
are meant to estimate, and no sign of how unsure it is (docs/statistics.md has the table)."""
LEVEL = 0.05
"""Of either one-sided test; the 90 % interval inside the margin says the same (Schuirmann 1987)."""


class Verdict(StrEnum):
    """What the seeds show about a method and retraining."""

    EQUIVALENT = "equivalent"
    """Both one-sided tests reject: the difference is inside the margin."""
    NOT_SHOWN = "not shown"
    """Neither equivalence nor a difference beyond the margin is shown."""
    DIFFERENT = "different"
    """The 95 % interval lies wholly outside the margin."""
    IDENTICAL = "identical"
    """On every shared seed both have the same value."""
    UNDERPOWERED = "underpowered"
    """Too few seeds for a test or for a margin."""


@dataclass(frozen=True)
class Equivalence:
    """A method against retraining, on one metric."""

    estimate: float
    """Mean difference; NaN without a seed."""
    low90: float
    """The 90 % t interval of it; NaN below two seeds."""
    high90: float
    p: float
    """The larger of the two one-sided p-values; NaN where no test was made."""
    margin: float | None
    n: int
    """Seeds that both have."""
    verdict: Verdict


def margin(oracle: ArrayLike, *, quantile: float = 0.95) -> float | None:
    """The margin of equivalence: how far two retrained models lie apart, by their seeds alone.

    Args:
        oracle: [S] the metric of the retrained model, one per seed; NaN = not measured.
        quantile: Of the absolute differences over all pairs of seeds, linearly interpolated.

    Returns:
        None below three seeds. With few seeds the margin comes out too small (0.6 of the true quantile at three, 0.8 at
        five, normal seed effects), which makes "equivalent" harder to reach. 0 where all seeds agree.
    """
    values = np.asarray(oracle, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    if len(values) < LEAST_ORACLES:
        return None
    first, second = np.triu_indices(len(values), 1)
    return float(np.quantile(clean(np.abs(values[first] - values[second])), quantile))


def tost(differences: ArrayLike, margin: float | None) -> Equivalence:
    """Two one-sided paired t-tests (Schuirmann 1987) of |mean difference| ≥ ``margin``, at 5 % each.

    Args:
        differences: [S] method minus retraining, seed by seed; NaN = a seed that one of them lacks.
        margin: What :func:`margin` gives; None = there is none, so nothing can be shown.

    DIFFERENT is read off the 95 % interval and not the 90 % one: where the margin is 0, which happens when no retrained
    model ever names a forget item, both sides of the interval can err, and 90 % would err twice as often as it says.
    Without spread (all seeds the same number) there is no t: the exact sign flip's least p takes its place (2 ** -n
    on one side, 2 ** (1 - n) on two), so four such seeds show nothing. A margin of 0 leaves only IDENTICAL, NOT_SHOWN
    and DIFFERENT.
    """
    values = clean(np.asarray(differences, dtype=np.float64).reshape(1, -1))
    narrow, wide = t_interval(values, confidence=1 - 2 * LEVEL), t_interval(values, confidence=1 - LEVEL)
    estimate, sd, n = float(narrow.mean[0]), float(narrow.sd[0]), int(narrow.n[0])
    if n < 2:
        p, verdict = float("nan"), Verdict.UNDERPOWERED
    elif np.nanmax(np.abs(values)) == 0.0:
        p, verdict = float(2.0**-n), Verdict.IDENTICAL
    elif margin is None:
        p, verdict = float("nan"), Verdict.UNDERPOWERED
    else:
        p = _inside(estimate, sd, n, margin)
        beyond = float(wide.low[0]) > margin or float(wide.high[0]) < -margin
        beyond = beyond and (sd > 0.0 or 2.0 ** (1 - n) <= LEVEL)
        verdict = Verdict.EQUIVALENT if p <= LEVEL else Verdict.DIFFERENT if beyond else Verdict.NOT_SHOWN
    return Equivalence(
        estimate=estimate,
        low90=float(narrow.low[0]),
        high90=float(narrow.high[0]),
        p=p,
        margin=margin,
        n=n,
        verdict=verdict,
    )


def _inside(estimate: float, sd: float, n: int, margin: float) -> float:
    """The larger p of the two one-sided tests."""
    from scipy.special import stdtr

    room = margin - abs(estimate)
    if sd == 0.0:
        return float(2.0**-n) if room > 0.0 else 1.0
    return float(never_zero(stdtr(n - 1, -room / (sd / np.sqrt(n)))))
