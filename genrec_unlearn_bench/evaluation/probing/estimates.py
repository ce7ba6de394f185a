"""AUROC and accuracy averaged over splits, with 95 % intervals clustered by item.

Within a split, the variance is the sum of squared influences of items, as examples of one item are alike (Obuchowski
1997, "Nonparametric analysis of clustered ROC curve data", Biometrics 53: DeLong's placement values by cluster).

Between splits, which train and test on overlapping data: with s2 the variance of one, that of the mean of J is
s2 (r + (1 - r) / J), where r = tested / (tested + trained) (Nadeau & Bengio, "Inference for the generalization error",
Machine Learning 52, 2003). They estimate s2 from the spread of the J values; here it is the clustered variance.

The variance is turned into a number of independent examples of each class that would have it, and that into a score
interval, which stays inside [0, 1]: Newcombe 2006 ("Confidence intervals for an effect size measure based on the
Mann-Whitney statistic, part 2", Statistics in Medicine 25, method 5) for AUROC, Wilson's for accuracy, with Student's
quantile at Kish's effective number of items less one as degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import rankdata, t

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measurement import FloatArray, IntervalEstimate

_EDGE = 1e-9


@dataclass(frozen=True, eq=False)
class SplitScores:
    """A probe's scores (above 0: positive) on the test examples of one split, as many positives as negatives, [n]."""

    scores: FloatArray
    labels: BoolArray
    items: IntArray


@dataclass(frozen=True, kw_only=True)
class SplitMean(IntervalEstimate):
    """An average over splits with its interval, and its standard error with degrees of freedom."""

    error: float
    freedom: float


@dataclass(frozen=True)
class _Shape:
    """Variance of a value a from n independent examples: a (1 - a) (1 + (n - 1) c(a)) / n^2.

    ``likeness`` is c; ``classes`` is 2 where n counts the examples of each class.
    """

    likeness: Callable[[float], float]
    classes: int

    def variance(self, chance: float, size: float) -> float:
        return chance * (1 - chance) * (1 + (size - 1) * self.likeness(chance)) / size**2

    def size(self, chance: float, variance: float) -> float:
        """The n that has this variance."""
        spread, like = chance * (1 - chance), self.likeness(chance)
        return (spread * like + math.sqrt((spread * like) ** 2 + 4 * variance * spread * (1 - like))) / (2 * variance)


def auroc(tests: Sequence[SplitScores], correlation: float) -> SplitMean:
    """Chance that a positive scores above a negative (ties count half), mean over splits; r is ``correlation``."""
    values, influences = [], []
    for test in tests:
        ranks = rankdata(test.scores)
        placed = np.empty(len(test.labels))
        for own in (test.labels, ~test.labels):
            # Share of the other class that lies below, ties by half.
            placed[own] = (ranks[own] - rankdata(test.scores[own])) / (~own).sum()
        placed[~test.labels] = 1 - placed[~test.labels]
        values.append(float(placed.mean()))
        influences.append((placed - placed.mean()) * 2 / len(placed))
    shape = _Shape(lambda chance: (1 - chance) / (2 - chance) + chance / (1 + chance), classes=2)
    return _estimate(tests, values, influences, correlation, shape)


def accuracy(tests: Sequence[SplitScores], correlation: float) -> SplitMean:
    """Share of right answers on balanced classes, mean over splits."""
    values, influences = [], []
    for test in tests:
        right = ((test.scores > 0) == test.labels).astype(np.float64)
        values.append(float(right.mean()))
        # By class: where a probe leans to one side, what it loses there it wins on the other.
        mean = np.where(test.labels, right[test.labels].mean(), right[~test.labels].mean())
        influences.append((right - mean) / len(right))
    return _estimate(tests, values, influences, correlation, _Shape(lambda chance: 1.0, classes=1))


def difference(own: SplitMean, other: SplitMean) -> IntervalEstimate:
    """Own less other, taken as independent."""
    half = float(t.ppf(0.975, min(own.freedom, other.freedom)) * np.hypot(own.error, other.error))
    gap = own.value - other.value
    return IntervalEstimate(gap, max(gap - half, -1.0), min(gap + half, 1.0))


def _estimate(
    tests: Sequence[SplitScores],
    values: Sequence[float],
    influences: Sequence[FloatArray],
    correlation: float,
    shape: _Shape,
) -> SplitMean:
    value = float(np.mean(values))
    labels, items = (np.concatenate(part) for part in zip(*((test.labels, test.items) for test in tests), strict=True))
    # The class with fewer items limits the degrees of freedom.
    freedom = max(min(_effective(items[side]) for side in (labels, ~labels)) - 1, 1.0)
    shrink = correlation + (1 - correlation) / len(tests)
    squared = float(np.mean([_clustered(*pair) for pair in zip(tests, influences, strict=True)])) * shrink
    if squared > 0 and 0 < value < 1:
        most = float(np.mean([len(test.labels) for test in tests])) / shape.classes
        size = float(np.clip(shape.size(value, squared), 1.0, most / shrink))
    else:
        # Nothing went wrong (or right), so that there is no variance to see: each item counts as one example.
        fewest = np.mean([min(_effective(test.items[side]) for side in (test.labels, ~test.labels)) for test in tests])
        size = float(fewest) / shrink
    low, high = _interval(value, size, float(t.ppf(0.975, freedom)), shape)
    return SplitMean(value=value, low=low, high=high, error=float(np.sqrt(squared)), freedom=freedom)


def _clustered(test: SplitScores, influence: FloatArray) -> float:
    _, cluster = np.unique(test.items, return_inverse=True)
    effective = min(_effective(test.items[side]) for side in (test.labels, ~test.labels))
    return float((np.bincount(cluster, influence) ** 2).sum()) * effective / max(effective - 1, 0.5)


def _effective(items: IntArray) -> float:
    """Kish's effective number of items of unequal frequency."""
    counts = np.unique(items, return_counts=True)[1].astype(np.float64)
    return float(counts.sum() ** 2 / (counts**2).sum())


def _interval(value: float, size: float, quantile: float, shape: _Shape) -> tuple[float, float]:
    """All chances that ``value`` is within ``quantile`` of their standard errors of."""

    def beyond(chance: float) -> float:
        return (chance - value) ** 2 - quantile**2 * shape.variance(chance, size)

    low = 0.0 if value <= _EDGE else float(brentq(beyond, 0.0, min(value, 1 - _EDGE)))
    high = 1.0 if value >= 1 - _EDGE else float(brentq(beyond, max(value, _EDGE), 1.0))
    return low, high
