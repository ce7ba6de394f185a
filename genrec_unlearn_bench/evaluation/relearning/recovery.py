"""How much an attack brought back, against what the same attack gives a model that never learned the concept.

All uncertainty here comes from which held-out interactions there are: they are resampled together for all models
(paired bootstrap), with one draw for each number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.relearning.trace import Trace
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["LEAST_GAP", "Estimate", "area", "peak", "recovery"]

FloatArray = NDArray[np.float64]

DRAWS = 2000
"""Bootstrap samples."""

LEAST_GAP = 0.02
"""Smallest HR@10 of the original beyond the retrained model's that is divided by."""


@dataclass(frozen=True)
class Estimate:
    """A value over n held-out interactions, with the 2.5 % and 97.5 % points of its bootstrap samples."""

    value: float
    interval: tuple[float, float]
    n: int


def area(trace: Trace) -> Estimate:
    """Mean HR@10 over the attack: the area under the recovery curve (trapezoids over steps) by its length; 0 to 1."""
    of_each = _area(trace.train.T.astype(np.float64), trace.steps)[:, None]
    return _estimate(float(of_each.mean()), (_weights(len(of_each)) @ of_each)[:, 0], len(of_each))


def recovery(own: Trace, original: Trace, retrain: Trace) -> Estimate:
    """R at the last step of the attack; see ``_ratios``."""
    value, sampled = _ratios(own, original, retrain)
    return _estimate(float(value[-1]), sampled[:, -1], own.train.shape[1])


def peak(own: Trace, original: Trace, retrain: Trace) -> Estimate:
    """The largest R of all scored steps, step 0 among them. Noise lifts a maximum, and its samples with it; where it
    lifts nearly all of them, the interval is widened to hold the measured value."""
    value, sampled = _ratios(own, original, retrain)
    return _estimate(float(value.max()), sampled.max(axis=1), own.train.shape[1])


def _ratios(own: Trace, original: Trace, retrain: Trace) -> tuple[FloatArray, FloatArray]:
    """R(t) = [HR_own(t) - HR_retrain(t)] / [HR_original(0) - HR_retrain(0)], [S], and its bootstrap samples [2000, S].

    Nothing is clipped: below 0 the model holds less than one that never learned the concept, above 1 it gives back more
    than the original knew.

    Raises:
        NotMeasurable: The attacks differ, or the denominator cannot be told from 0, so that no ratio means anything.
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


def _area(hits: FloatArray, steps: IntArray) -> FloatArray:
    """[n] of each interaction; ``hits``: [n, S]."""
    return np.asarray(np.trapezoid(hits, steps, axis=1) / (steps[-1] - steps[0]), dtype=np.float64)


@cache
def _weights(n: int) -> FloatArray:
    """[2000, n] how much each of n interactions counts in each sample; rows sum to 1."""
    return numpy_generator(0, "relearning", "bootstrap", n).multinomial(n, np.full(n, 1 / n), size=DRAWS) / n


def _estimate(value: float, sampled: FloatArray, n: int) -> Estimate:
    low, high = np.nanquantile(sampled, (0.025, 0.975))
    return Estimate(value, (min(float(low), value), max(float(high), value)), n)
