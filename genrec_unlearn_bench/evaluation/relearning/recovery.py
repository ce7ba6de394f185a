"""Hits on held-out interactions during an attack, and how much of the concept the attack brought back.

Recovery is measured against the same attack on a model that never learned the concept. All uncertainty comes from the
choice of held-out interactions: they are resampled together for all models (paired bootstrap), with one draw for each
number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measurement import FloatArray, IntervalEstimate, Measured, NotMeasurable
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    import pandas as pd

DRAWS = 2000
"""Bootstrap samples."""

HELD_OUT = ("train", "test")
"""The held-out interactions that were forgotten, and future ones."""

LEAST_GAP = 0.02
"""Smallest HR@10 of the original beyond the retrained model's that is divided by."""


@dataclass(frozen=True, eq=False)
class AttackTrace:
    """Hits on held-out interactions while an attack goes on.

    Attributes:
        planned: [P] steps at which the model was to be scored.
        passes: [P] passes over the attack's data until then (``AttackSet.passes``).
        train: [S, n] hits of the held-out train interactions at the first S planned steps; later ones were not allowed.
        test: [S, m] the same of held-out test interactions.
        targets: [n] items of the held-out train interactions, by which two traces are known to be of the same ones.
    """

    planned: IntArray
    passes: NDArray[np.float64]
    train: BoolArray
    test: BoolArray
    targets: IntArray

    @property
    def steps(self) -> IntArray:
        """[S] the steps that were taken and scored."""
        return self.planned[: len(self.train)]

    def measured(self, attack: str, space: str) -> Measured:
        """For storage: the published curve, and the hits."""
        return Measured(curve=self._curve(attack, space), samples=dict(vars(self)))

    @classmethod
    def of(cls, measured: Measured) -> AttackTrace:
        return cls(**measured.samples)  # type: ignore[arg-type]

    def _curve(self, attack: str, space: str) -> pd.DataFrame:
        """One row for each part and planned step; no rate where it was not allowed, or nothing is held out."""
        import pandas as pd

        rows = []
        for part, hits in zip(HELD_OUT, (self.train, self.test), strict=True):
            n = hits.shape[1]
            for index, (step, passes) in enumerate(zip(self.planned.tolist(), self.passes.tolist(), strict=True)):
                known = index < len(hits) and n > 0
                found = int(hits[index].sum()) if known else 0
                low, high = exact_interval(found, n) if known else (np.nan, np.nan)
                rate = found / n if known else np.nan
                rows.append((attack, space, step, passes, part, rate, low, high, n))
        columns = ["attack", "space", "step", "passes", "part", "hr@10", "low", "high", "n"]
        return pd.DataFrame(rows, columns=columns)


def exact_interval(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a rate (Clopper & Pearson 1934)."""
    from scipy.stats import binomtest

    interval = binomtest(hits, n).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)


def area(trace: AttackTrace) -> IntervalEstimate:
    """Mean HR@10 over the attack: the area under the recovery curve (trapezoids over steps) by its length; 0 to 1."""
    steps = trace.steps
    of_each = (np.trapezoid(_columns(trace.train), steps, axis=1) / (steps[-1] - steps[0]))[:, None]
    return _estimate(float(of_each.mean()), (_weights(len(of_each)) @ of_each)[:, 0], len(of_each))


def recovery(own: AttackTrace, original: AttackTrace, retrain: AttackTrace) -> IntervalEstimate:
    value, sampled = _ratios(own, original, retrain)
    return _estimate(float(value[-1]), sampled[:, -1], own.train.shape[1])


def peak(own: AttackTrace, original: AttackTrace, retrain: AttackTrace) -> IntervalEstimate:
    """The largest R of all scored steps, step 0 among them. Noise lifts a maximum, and its samples with it; where it
    lifts nearly all of them, the interval is widened to hold the measured value."""
    value, sampled = _ratios(own, original, retrain)
    return _estimate(float(value.max()), sampled.max(axis=1), own.train.shape[1])


def _ratios(own: AttackTrace, original: AttackTrace, retrain: AttackTrace) -> tuple[FloatArray, FloatArray]:
    """R(t) = [HR_own(t) - HR_retrain(t)] / [HR_original(0) - HR_retrain(0)], [S], and its bootstrap samples [2000, S].

    Nothing is clipped: below 0 the model holds less than one that never learned the concept, above 1 it gives back more
    than the original knew. Raises NotMeasurable where the attacks differ, or the denominator may be 0.
    """
    for other in (original, retrain):
        if not np.array_equal(own.targets, other.targets):
            raise NotMeasurable("the run and its references were scored on different held-out interactions")
    if not np.array_equal(own.steps, retrain.steps):
        raise NotMeasurable("the run and the retrained model were attacked for different steps")
    hits = [_columns(own.train), _columns(retrain.train), _columns(original.train[:1]), _columns(retrain.train[:1])]
    values = [found.mean(axis=0) for found in hits]
    sampled = [_weights(len(found)) @ found for found in hits]
    gap, gaps = float((values[2] - values[3])[0]), sampled[2] - sampled[3]
    low, high = (float(bound) for bound in np.quantile(gaps, (0.025, 0.975)))
    if gap < LEAST_GAP or low <= 0:
        raise NotMeasurable(
            f"before the attack the original's HR@10 is {gap:+.3f} beyond the retrained model's ({low:+.3f} to "
            f"{high:+.3f}): too little to be recovered and divided by"
        )
    return (values[0] - values[1]) / gap, (sampled[0] - sampled[1]) / np.where(gaps > 0, gaps, np.nan)


def _columns(hits: BoolArray) -> FloatArray:
    """[n, S] from [S, n]."""
    return hits.T.astype(np.float64)


@cache
def _weights(n: int) -> FloatArray:
    """[2000, n] how much each of n interactions counts in each sample; rows sum to 1."""
    return numpy_generator(0, "relearning", "bootstrap", n).multinomial(n, np.full(n, 1 / n), size=DRAWS) / n


def _estimate(value: float, sampled: FloatArray, n: int) -> IntervalEstimate:
    low, high = np.nanquantile(sampled, (0.025, 0.975))
    return IntervalEstimate(value, min(float(low), value), max(float(high), value), n)
