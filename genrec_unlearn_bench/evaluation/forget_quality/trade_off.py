"""Tug-of-War: how far a run's accuracies are from the retrained model's on what is forgotten, kept and new.

Zhao et al. 2024, "What makes unlearning hard and what to do about it" (arXiv 2406.01257): the product over the three
sets of 1 - |a(run) - a(retrained)|. Accuracy is HR@10 here, of the order of .1, where such differences say little; so
each is divided by the original recommender's accuracy on the same set first (ours). A difference of more than that
accuracy counts as one, or two of them would multiply to something good.

Deviation: the paper's forget accuracy is on the forget set itself. Here it is on forget test examples, what is asked
of a recommender that was to forget a concept; the forgotten interactions themselves are membership inference's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["Accuracies", "average_gap", "interval", "tug_of_war"]

FloatArray = NDArray[np.float64]

RESAMPLES = 1000
BLOCK = 100


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
    """95 % percentile bootstrap of ``tug_of_war`` or ``average_gap``, paired: examples are drawn anew within each set,
    and all models are looked at on the same draw. As a distance is never below 0, samples lean away from the retrained
    model where the run is about as good; the interval is widened to hold the measured value where all of them do.

    Args:
        hits: For each set, [n, 3] hits of the run, the retrained and the original model on the same examples.
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
