"""The ratio of two means over the same examples, with an interval; or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["DRAWS", "Ratio", "paired_ratio"]

DRAWS = 2000
"""Resamples of the bootstrap."""
_TAIL = 0.01
"""Share of the resamples whose denominator may be 0 or less. Below the 2.5 % of each of the interval's ends, so that
both are finite."""
_CELLS = 4_000_000


@dataclass(frozen=True)
class Ratio:
    """mean(numerators) / mean(denominators) over n examples, with its 95 % interval."""

    value: float
    low: float
    high: float
    n: int


def paired_ratio(numerators: NDArray[np.float64], denominators: NDArray[np.float64], *, what: str) -> Ratio:
    """The ratio of the means of two rows [n] of numbers of the same examples.

    The interval is the percentile bootstrap's over examples, both rows together; it is made to hold the value.

    Raises:
        NotMeasurable: The mean denominator is not above 0, or resampling cannot tell it from 0: a ratio to what may
            be nothing says nothing. ``what`` names the denominator in the reason.
    """
    n = len(denominators)
    if n < 2:
        raise NotMeasurable(f"{what} cannot be told from 0 over {n} examples")
    below = float(denominators.mean())
    if below <= 0:
        raise NotMeasurable(f"{what} is {below:.3g}, and only above 0 is there anything to take a share of")
    above, under = _resampled(np.stack([numerators, denominators], axis=1)).T
    if float((under <= 0).mean()) >= _TAIL:
        raise NotMeasurable(f"{what} is {below:.3g} over {n} examples, which resampling cannot tell from 0")
    value = float(numerators.mean()) / below
    ratios = np.where(under > 0, above / np.where(under > 0, under, 1.0), np.copysign(np.inf, above))
    low, high = np.quantile(ratios, [0.025, 0.975], method="nearest")
    return Ratio(value, min(float(low), value), max(float(high), value), n)


def _resampled(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """[DRAWS, C] column means of resampled rows [n, C]; the same draws for every call of that length."""
    n = len(rows)
    generator = numpy_generator(0, "paired-ratio", n)
    chunk = max(1, _CELLS // n)
    out = [
        rows[generator.integers(n, size=(min(chunk, DRAWS - first), n))].mean(axis=1)
        for first in range(0, DRAWS, chunk)
    ]
    return np.concatenate(out)
