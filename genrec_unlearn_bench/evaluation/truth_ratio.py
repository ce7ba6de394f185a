"""Truth ratios, their Kolmogorov-Smirnov distance, and Tug-of-War: what forget quality is computed from.

Truth ratio. TOFU (Maini et al. 2024, arXiv 2401.06121, eq. 1) divides the mean over five perturbed answers of
P(answer)^(1/tokens) by that of a paraphrase of the right answer. An item has no paraphrase, so the right answer itself
is used; the perturbed answers are the five semantic neighbours P(i). The mean is arithmetic, as in the paper; its
code takes the geometric one.

Tug-of-War. Zhao et al. 2024 (arXiv 2406.01257): the product over what is forgotten, kept and new of
1 - |a(run) - a(retrained)|. Accuracy is HR@10 here, of the order of .1, so each difference is divided by the original
recommender's accuracy on the same set first and cut at 1 (ours). Deviation: forget accuracy is on forget test examples
instead of the forget set, which is membership inference's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.evaluation.likelihoods import Scored
from genrec_unlearn_bench.evaluation.measurement import FloatArray
from genrec_unlearn_bench.seeding import numpy_generator

RESAMPLES = 1000
BLOCK = 100


def log_truth_ratios(part: Scored) -> FloatArray:
    """[w] natural logarithm of the truth ratio of the first w examples; NaN for one without any wrong item.

    Lengths are those under the model's own semantic IDs: a truth ratio is defined in one SID space alone, so that
    after a reassignment the run and the retrained model are each scored under their own.
    """
    w = len(part.wrong)
    there = part.wrong_lengths > 0
    wrong = np.where(there, part.wrong / np.maximum(part.wrong_lengths, 1), -np.inf)
    count = there.sum(axis=1)
    right = part.log_probs[:w].sum(axis=1) / np.maximum(part.real[:w].sum(axis=1), 1)
    mean = np.logaddexp.reduce(wrong, axis=1, initial=-np.inf) - np.log(np.maximum(count, 1))
    return np.asarray(np.where(count > 0, mean - right, np.nan))


def forget_aggregate(log_ratios: FloatArray) -> FloatArray:
    """[w] min(TR, 1/TR): 1 where right and wrong answers are equally likely, 0 where either is certain."""
    return np.asarray(np.exp(-np.abs(log_ratios)))


def retain_aggregate(log_ratios: FloatArray) -> FloatArray:
    """[w] max(0, 1 - TR): 1 where the right answer is certain, 0 where wrong ones are at least as likely."""
    return np.asarray(np.maximum(0.0, -np.expm1(np.minimum(log_ratios, 0.0))))


@dataclass(frozen=True)
class KSDistance:
    """A Kolmogorov-Smirnov distance with its 95 % interval, its p-value, and the examples n in each sample."""

    d: float
    low: float
    high: float
    p: float
    n: int


def ks_distance(first: FloatArray, second: FloatArray) -> KSDistance:
    """Two-sample Kolmogorov-Smirnov test between two models' values [n] of the same examples, in the same order.

    The p-value is that of independent samples, as in TOFU, and so too high for samples of the same examples. The
    interval is D -+ the 95 % point of the largest error of F - G anywhere, by bootstrap over examples (pairs stay
    together). D's own percentiles would not do: resampling can only push a maximum up where both distributions agree.
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
    return KSDistance(d, max(0.0, d - half), min(1.0, d + half), float(found.pvalue), n)


def p_value(first: FloatArray, second: FloatArray) -> float:
    from scipy.stats import ks_2samp

    return float(ks_2samp(first, second).pvalue)


@dataclass(frozen=True, eq=False)
class Accuracies:
    """Accuracies on the three sets, [..., 3] each."""

    run: FloatArray
    retrained: FloatArray
    original: FloatArray


def tug_of_war(accuracies: Accuracies) -> FloatArray:
    """[...] product over the sets of 1 - min(1, |a(run) - a(retrained)| / a(original)): 1 is the retrained model.

    NaN where the original recommender hits nothing on some set.
    """
    original = np.where(accuracies.original > 0, accuracies.original, np.nan)
    gaps = np.minimum(1.0, np.abs(accuracies.run - accuracies.retrained) / original)
    return np.asarray(np.prod(1.0 - gaps, axis=-1))


def average_gap(accuracies: Accuracies) -> FloatArray:
    """[...] mean over the sets of |a(run) - a(retrained)|, in absolute accuracies (Fan et al. 2024,
    arXiv 2310.12508, who have more of them)."""
    return np.asarray(np.abs(accuracies.run - accuracies.retrained).mean(axis=-1))


def interval(measure: Callable[[Accuracies], FloatArray], hits: Sequence[FloatArray]) -> tuple[float, float]:
    """95 % percentile bootstrap of ``tug_of_war`` or ``average_gap``, paired: examples are drawn anew within each set.

    As a distance is never below 0, samples lean away from the retrained model where the run is about as good; the
    interval is widened to hold the measured value. ``hits``: for each set, [n, 3] of the run, the retrained and the
    original model.
    """
    generator = numpy_generator(0, "forget-quality", "trade-off")
    sets = []
    for found in hits:
        n = len(found)
        blocks = [
            generator.multinomial(n, np.full(n, 1 / n), size=BLOCK) @ found / n for _ in range(RESAMPLES // BLOCK)
        ]
        sets.append(np.concatenate(blocks))
    run, retrained, original = np.moveaxis(np.stack(sets, axis=1), 2, 0)
    values = measure(Accuracies(run, retrained, original))
    low, high = np.nanquantile(values, [0.025, 0.975])
    measured = float(measure(Accuracies(*np.stack([found.mean(axis=0) for found in hits], axis=1))))
    return float(np.fmin(low, measured)), float(np.fmax(high, measured))
