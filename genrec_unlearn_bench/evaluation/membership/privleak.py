"""PrivLeak: how far a membership AUC is from the retrained model's (MUSE, Shi et al. 2024, arXiv 2407.06460)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.membership.roc import Estimate, kernel
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["RESAMPLES", "Scores", "privleak"]

FloatArray = NDArray[np.float64]
Scores = tuple[FloatArray, FloatArray]
"""Scores of members [m] and of non-members [n]."""

RESAMPLES = 1000
BLOCK = 100


def privleak(own: Scores, retrained: Scores) -> Estimate:
    """100 [(1 - AUC) - (1 - AUC_re)] / (1 - AUC_re), in per cent of what retraining leaves untold.

    0 is the retrained model; -100 a model that gives every member away (too little unlearned); above 0 forgotten
    interactions score below those that were never trained on, which gives them away as well (too much unlearned).

    The interval is a stratified percentile bootstrap over examples: members and non-members are drawn anew, and both
    models are scored on the same draw, since they were measured on the same examples.

    Args:
        own, retrained: Scores of the same examples, in the same order.

    Raises ValueError where the retrained model's AUC is 1: there is nothing to be in proportion to.
    """
    grids = [kernel(*scores) for scores in (own, retrained)]
    value = _leak(*(grid.mean() for grid in grids))
    m, n = grids[0].shape
    generator = numpy_generator(0, "membership", "privleak")
    drawn = []
    for _ in range(RESAMPLES // BLOCK):
        rows = generator.multinomial(m, np.full(m, 1 / m), size=BLOCK) / m
        columns = generator.multinomial(n, np.full(n, 1 / n), size=BLOCK) / n
        drawn.append([np.einsum("bn,bn->b", rows @ grid, columns) for grid in grids])
    untold = 1.0 - np.concatenate(drawn, axis=1)
    leaks = 100.0 * (untold[0] - untold[1])[untold[1] > 0] / untold[1][untold[1] > 0]
    low, high = np.quantile(leaks, [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def _leak(own: float, retrained: float) -> float:
    if retrained >= 1.0:
        raise ValueError("the retrained model's AUC is 1")
    return 100.0 * ((1.0 - own) - (1.0 - retrained)) / (1.0 - retrained)
