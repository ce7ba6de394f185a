"""The two families of tests in a block, each corrected by Holm: methods against the baseline row, and all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import PairedTests, holm, paired_tests, sign_flip
from genrec_unlearn_bench.reporting.statistics.ranks import best_set, rank_intervals, second_set, tie_groups
from genrec_unlearn_bench.reporting.wording import finite

__all__ = ["NOWHERE", "Difference", "Mark", "Order", "Place", "Verdict", "against", "all_pairs", "scores"]

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


class Verdict(StrEnum):
    """Outcome of a test against the baseline."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SEPARABLE = "not separable"
    UNDERPOWERED = "underpowered"
    """Too few seeds for any result to reach alpha."""


@dataclass(frozen=True)
class Difference:
    """A row minus the baseline row, paired by seed; estimate and interval in the measure's unit.

    Attributes:
        p: Two-sided paired t over seeds.
        p_holm: Corrected over the family.
        p_sign_flip: Exact sign-flip, from the protocol's number of seeds up.
        effect: Standardised difference (see ``statistics.paired``); None without variance.
        exact: The difference is the same in every seed, so that there is no variance to test against.
    """

    estimate: float
    low: float | None
    high: float | None
    n: int
    p: float | None
    p_holm: float | None
    p_sign_flip: float | None
    effect: float | None
    exact: bool
    verdict: Verdict


def against(
    values: FloatArray,
    measures: Sequence[Measure],
    family: Sequence[int],
    base: int | None,
    ranked: Sequence[int],
    protocol: StatisticsProtocol,
) -> dict[tuple[int, int], Difference]:
    """Differences from the baseline, corrected over rows × measures of one family."""
    rows = [row for row in ranked if row != base]
    if base is None or not rows or not family:
        return {}
    places = [(m, r) for m in family for r in rows]
    raw = np.stack([values[m, r] - values[m, base] for m, r in places])
    oriented = {m: scores(values[m], measures[m]) for m in family}
    turned = np.stack([oriented[m][r] - oriented[m][base] for m, r in places])
    tests = paired_tests(turned, confidence=protocol.confidence)
    shown = paired_tests(raw, confidence=protocol.confidence)
    corrected = holm(tests.p)
    enough = tests.n >= protocol.sign_flip_from
    flips = np.full(len(places), np.nan)
    if enough.any():
        flips[enough] = sign_flip(turned[enough])
    out = {}
    for i, place in enumerate(places):
        if not tests.n[i]:
            continue
        out[place] = Difference(
            estimate=float(shown.estimate[i]),
            low=finite(shown.low[i]),
            high=finite(shown.high[i]),
            n=int(tests.n[i]),
            p=finite(tests.p[i]),
            p_holm=finite(corrected[i]),
            p_sign_flip=finite(flips[i]),
            effect=finite(shown.effect[i]),
            exact=bool(tests.exact[i]),
            verdict=_verdict(tests, corrected, i, protocol),
        )
    return out


def _verdict(tests: PairedTests, corrected: FloatArray, i: int, protocol: StatisticsProtocol) -> Verdict:
    if tests.n[i] < 2:
        return Verdict.UNDERPOWERED
    if corrected[i] <= protocol.alpha:
        return Verdict.BETTER if tests.estimate[i] > 0 else Verdict.WORSE
    # Without variance the p is the sign-flip's smallest, which few seeds cannot bring below alpha.
    if tests.exact[i] and tests.p[i] > protocol.alpha:
        return Verdict.UNDERPOWERED
    return Verdict.NOT_SEPARABLE
