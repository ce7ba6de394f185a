"""Who is ahead of whom in a block: all pairs of methods, corrected together, as marks, rank intervals and letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.statistics.holm import holm
from genrec_unlearn_bench.reporting.statistics.paired import paired_tests
from genrec_unlearn_bench.reporting.statistics.ranks import best_set, rank_intervals, second_set, tie_groups

__all__ = ["NOWHERE", "Mark", "Order", "Place", "all_pairs", "scores"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
LEAST_SEEDS = 2
"""Fewer cannot be told from anything, so that they would stand in every best set."""


class Mark(StrEnum):
    """Bold, underlined or plain."""

    BEST = "best"
    SECOND = "second"
    PLAIN = "plain"


@dataclass(frozen=True)
class Place:
    mark: Mark = Mark.PLAIN
    rank: tuple[int, int] | None = None
    letters: str = ""


NOWHERE = Place()


@dataclass(frozen=True)
class Order:
    """Marks, ranks and letters of the ranked rows on one measure."""

    places: Mapping[int, Place]
    tests: int
    separable: bool

    def of(self, row: int) -> Place:
        return self.places.get(row, NOWHERE)


def all_pairs(
    values: FloatArray,
    measures: Sequence[Measure],
    family: Sequence[int],
    ranked: Sequence[int],
    *,
    alpha: float,
    letters: bool,
) -> dict[int, Order]:
    """All pairs of ranked rows that were measured, corrected over pairs × measures of one family."""
    turned = {m: scores(values[m], measures[m]) for m in family}
    present = {m: [r for r in ranked if np.isfinite(turned[m][r]).any()] for m in family}
    present = {m: rows for m, rows in present.items() if rows}
    above = {m: np.triu_indices(len(rows), 1) for m, rows in present.items()}
    differences = [
        turned[m][rows][above[m][0]] - turned[m][rows][above[m][1]] for m, rows in present.items() if len(rows) > 1
    ]
    p = estimates = np.zeros(0)
    if differences:
        tests = paired_tests(np.concatenate(differences))
        p, estimates = holm(tests.p), tests.estimate
    out = {}
    begin = 0
    for m, rows in present.items():
        here = slice(begin, begin + len(above[m][0]))
        begin = here.stop
        better = np.zeros((len(rows), len(rows)), dtype=np.bool_)
        significant = p[here] <= alpha
        better[above[m]] = significant & (estimates[here] > 0)
        better[above[m][::-1]] = significant & (estimates[here] < 0)
        means = np.array([_mean(turned[m][r]) for r in rows])
        out[m] = _order(rows, means, better, int(np.isfinite(p[here]).sum()), letters=letters)
    return out


def _order(rows: Sequence[int], means: FloatArray, better: BoolArray, tests: int, *, letters: bool) -> Order:
    separable = better | better.T
    ranks = rank_intervals(better)
    names = tie_groups(separable) if letters else ("",) * len(rows)
    nobody = np.zeros(len(rows), dtype=np.bool_)
    best = best_set(means, better)
    # Where none can be told from the best all are best, and a column in bold throughout says less than one without.
    marked = bool((~best & np.isfinite(means)).any())
    best, second = (best, second_set(means, better)) if marked else (nobody, nobody)
    places = {
        row: Place(
            Mark.BEST if best[i] else Mark.SECOND if second[i] else Mark.PLAIN,
            (int(ranks[i, 0]), int(ranks[i, 1])),
            names[i],
        )
        for i, row in enumerate(rows)
    }
    return Order(places, tests, marked)


def _mean(values: FloatArray) -> float:
    """Over the seeds that were measured; NaN, which is in no set, where these are too few."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) >= LEAST_SEEDS else float("nan")


def scores(values: FloatArray, measure: Measure) -> FloatArray:
    """Turned so that more is better; NaN throughout for a measure without a direction."""
    sign = measure.score(1.0)
    if sign is None:
        return np.full_like(values, np.nan)
    return -np.abs(values) if measure.score(-1.0) == sign else values * sign
