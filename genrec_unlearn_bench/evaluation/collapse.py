"""Catalogue coverage and concentration of the retain test's lists, which show a model that unlearned by collapsing.

Both count items in the first ten places. The items that are to be forgotten (none for interaction requests) are left
out of the catalogue and of the lists, so that a model is not charged for no longer recommending them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricSpec, MetricValue

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.examples import BoolArray, IntArray

__all__ = ["SPECS", "collapse_values", "recommended"]

SPECS = (
    MetricSpec(
        name="coverage@10",
        title="Coverage@10",
        better={Group.RETAIN: Better.HIGHER},
        description="Share of the items that are not to be forgotten that are recommended to anybody: that stand among "
        "the first ten places of some retain test list. Rises with the number of lists.",
        source="catalogue coverage: Ge et al. 2010, 'Beyond accuracy: evaluating recommender systems by coverage and "
        "serendipity', sec. 2.1",
    ),
    MetricSpec(
        name="gini@10",
        title="Gini@10",
        better={Group.RETAIN: Better.LOWER},
        description="Gini coefficient of how often each item that is not to be forgotten stands among the first ten "
        "places of the retain test lists: 0 if all do equally often, near 1 if few fill every list.",
        source="Fleder and Hosanagar 2009, 'Blockbuster culture's next rise or fall'; Gini 1912",
    ),
)


def collapse_values(beam: int, counts: IntArray) -> Iterator[MetricValue]:
    """Both metrics at one beam, from the counts of ``recommended``."""
    numbers = ((counts > 0).mean(), gini(counts)) if counts.sum() else None
    for place, spec in enumerate(SPECS):
        yield MetricValue(
            metric=spec.name,
            group=Group.RETAIN,
            value=None if numbers is None else float(numbers[place]),
            beam=beam,
            n=len(counts),
            note="no item that may stay is recommended" if numbers is None else None,
        )


def recommended(items: IntArray, concept: BoolArray) -> IntArray:
    """Count of each unmarked item in the lists [M, k] (-1 at empty places), in the order of the catalogue."""
    counts = np.bincount(items[items >= 0], minlength=len(concept))
    return np.asarray(counts[~concept], dtype=np.int64)


def gini(counts: NDArray[np.int64]) -> float:
    """Gini coefficient of counts [n] with a sum above 0: their mean absolute difference over twice their mean."""
    ordered = np.sort(counts).astype(np.float64)
    n = len(ordered)
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float(weights @ ordered / (n * ordered.sum()))
