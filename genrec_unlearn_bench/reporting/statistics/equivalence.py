"""Is a method as good as retraining? Two one-sided tests against a margin that retraining itself sets.

"Not significantly different" is no evidence of forgetting, least of all with few seeds: equivalence has to be shown,
and where it is not, the verdict says no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from genrec_unlearn_bench.reporting.statistics.paired import FloatArray, MeanIntervals, clean, never_zero, t_interval

LEAST_ORACLES = 3
"""Retrained seeds a margin needs. Two give one difference, whose quantile is itself: on average 0.4 of the margin they
are meant to estimate, and no sign of how unsure it is (docs/statistics.md has the table)."""
LEVEL = 0.05
"""Of either one-sided test; the 90 % interval inside the margin says the same (Schuirmann 1987)."""


class Verdict(StrEnum):
    """Outcome of the equivalence test of a method and retraining."""

    EQUIVALENT = "equivalent"
    """Both one-sided tests reject: the difference is inside the margin."""
    NOT_SHOWN = "not shown"
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
    """Mean difference over the n shared seeds with its 90 % t interval; NaN where there are too few."""
    low90: float
    high90: float
    p: float
    """The larger of the two one-sided p-values; NaN where no test was made."""
    margin: float | None
    n: int
    verdict: Verdict


def margin(oracle: ArrayLike, *, quantile: float = 0.95, resolution: float = 0.0) -> float | None:
    """The margin of equivalence: how far two retrained models lie apart, by their seeds alone.

    Args:
        oracle: [S] the metric of the retrained model, one per seed; NaN = not measured.
        quantile: Of the absolute differences over all pairs of seeds, linearly interpolated.
        resolution: The least margin: what the metric moves by when one test example changes (1 / n for a hit rate over
            n examples). Retrained models often name no forget item in any seed, and under a margin of 0 one hit more
            would not be equivalent.

    Returns:
        None below three seeds. With few seeds the margin comes out too small (0.6 of the true quantile at three, 0.8 at
        five, normal seed effects), which makes "equivalent" harder to reach.
    """
    values = np.asarray(oracle, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    if len(values) < LEAST_ORACLES:
        return None
    first, second = np.triu_indices(len(values), 1)
    return max(float(np.quantile(clean(np.abs(values[first] - values[second])), quantile)), resolution)


def tosts(differences: ArrayLike, margin: float | None) -> tuple[Equivalence, ...]:
    """Two one-sided paired t-tests (Schuirmann 1987) of |mean difference| ≥ ``margin``, at 5 % each, of K methods.

    Args:
        differences: [K, S] method minus retraining, seed by seed; NaN = a seed that one of them lacks.
        margin: What :func:`margin` gives; None = there is none, so nothing can be shown.

    DIFFERENT is read off the 95 % interval and not the 90 % one: where the margin is 0, which happens when no retrained
    model ever names a forget item, both sides of the interval can err, and 90 % would err twice as often as it says.
    Without spread (all seeds the same number) there is no t: the exact sign flip's least p takes its place (2 ** -n
    on one side, 2 ** (1 - n) on two), so four such seeds show nothing. Margin 0: IDENTICAL, NOT_SHOWN or DIFFERENT.
    """
    values = clean(differences)
    narrow, wide = t_interval(values, confidence=1 - 2 * LEVEL), t_interval(values, confidence=1 - LEVEL)
    n = narrow.n
    tested = n >= 2
    same = tested & (np.nan_to_num(np.abs(values)).max(axis=1, initial=0.0) == 0.0)
    room = np.nan if margin is None else margin
    p = np.where(tested, np.where(same, 2.0**-n, _inside(narrow, room)), np.nan)
    beyond = ((wide.low > room) | (wide.high < -room)) & ((narrow.sd > 0.0) | (2.0 ** (1 - n) <= LEVEL))
    found = np.full(len(n), Verdict.NOT_SHOWN, dtype=object)
    found[beyond] = Verdict.DIFFERENT
    found[p <= LEVEL] = Verdict.EQUIVALENT
    found[~tested | np.isnan(room)] = Verdict.UNDERPOWERED
    found[same] = Verdict.IDENTICAL
    numbers = zip(narrow.mean.tolist(), narrow.low.tolist(), narrow.high.tolist(), p.tolist(), n.tolist(), strict=True)
    return tuple(
        Equivalence(estimate, low, high, least, margin, seeds, Verdict(verdict))
        for (estimate, low, high, least, seeds), verdict in zip(numbers, found, strict=True)
    )


def _inside(means: MeanIntervals, margin: float) -> FloatArray:
    """[K] the larger p of the two one-sided tests; NaN for a margin of NaN."""
    from scipy.special import stdtr

    room = margin - np.abs(means.mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = stdtr(np.maximum(means.n - 1, 1), -room / (means.sd / np.sqrt(means.n)))
    signs = np.where(room > 0.0, 2.0**-means.n, np.where(np.isnan(room), np.nan, 1.0))
    return never_zero(np.where(means.sd == 0.0, signs, spread))
