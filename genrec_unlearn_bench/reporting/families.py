"""The two families of tests in a block, each corrected by Holm: methods against the baseline row, and all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.metric import Better
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import holm, paired_tests, sign_flip
from genrec_unlearn_bench.reporting.statistics.ranks import best_set, rank_intervals, second_set, tie_groups
from genrec_unlearn_bench.reporting.wording import finite

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
LEAST_SEEDS = 2
"""Fewer are separable from nothing, so that they would be in every best set."""
SHARE = 3
"""A marked set holds at most one in so many of the ranked methods: a column that is bold throughout shows nothing."""


class Verdict(StrEnum):
    """Outcome of a test against the baseline."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SEPARABLE = "not separable"
    UNDERPOWERED = "underpowered"
    """Too few seeds for any result to reach alpha."""


@dataclass(frozen=True)
class Difference:
    """One row minus another, paired by seed; estimate and interval in the measure's unit.

    Attributes:
        estimate: NaN where no seed was measured for both.
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


def paired_differences(
    first: FloatArray, second: FloatArray, measures: Sequence[Measure], protocol: StatisticsProtocol
) -> tuple[Difference, ...]:
    """K differences between two rows, corrected as one family.

    Tested is what the verdict says: for a measure that is best near the oracle, the distance and not the sign. A
    measure without a better side is tested on the difference itself, and its verdict is never better or worse.

    Args:
        first, second: [K, S] values by seed; NaN = not measured.
        measures: [K] of each row of these.
    """
    gains = np.array(first - second)
    for i, measure in enumerate(measures):
        if measure.better is not Better.NONE:
            gains[i] = _scores(first[i], measure) - _scores(second[i], measure)
    shown = paired_tests(first - second, confidence=protocol.confidence)
    tests = paired_tests(gains)
    corrected = holm(tests.p)
    flips = sign_flip(np.where((tests.n >= protocol.sign_flip_from)[:, None], gains, np.nan))
    out = []
    for i, measure in enumerate(measures):
        # Without variance p is the sign-flip's smallest, which few seeds cannot bring below alpha.
        if tests.n[i] < 2 or (tests.exact[i] and tests.p[i] > protocol.alpha):
            verdict = Verdict.UNDERPOWERED
        elif not corrected[i] <= protocol.alpha or measure.better is Better.NONE:
            verdict = Verdict.NOT_SEPARABLE
        else:
            verdict = Verdict.BETTER if tests.estimate[i] > 0 else Verdict.WORSE
        out.append(
            Difference(
                estimate=float(shown.estimate[i]),
                low=finite(shown.low[i]),
                high=finite(shown.high[i]),
                n=int(tests.n[i]),
                p=finite(tests.p[i]),
                p_holm=finite(corrected[i]),
                p_sign_flip=finite(flips[i]),
                effect=finite(shown.effect[i]),
                exact=bool(tests.exact[i]),
                verdict=verdict,
            )
        )
    return tuple(out)


class Mark(StrEnum):
    """Bold, underlined or plain."""

    BEST = "best"
    SECOND = "second"
    PLAIN = "plain"


class Unmarked(StrEnum):
    """Why no best set is marked on a measure."""

    TIED = "no method is separable from the best"
    LARGE = "more than a third of the methods are not separable from the best"
    WORSE = "the best set holds a method that is worse than the baseline"
    UNORDERED = "a method outside the best set has a better mean than one in it"


class Place(NamedTuple):
    """Mark, ranks and letters of one row."""

    mark: Mark = Mark.PLAIN
    rank: tuple[int, int] | None = None
    letters: str = ""


class Order(NamedTuple):
    """Order of the ranked rows on one measure, and why no row is marked; None where the best set is."""

    places: Mapping[int, Place]
    tests: int
    unmarked: Unmarked | None


@dataclass(frozen=True)
class Family:
    """Measures of one block that are corrected together."""

    values: FloatArray
    """[measures, rows, seeds] of the whole block."""
    measures: Sequence[Measure]
    members: Sequence[int]
    """Indices of the family's own measures."""
    ranked: Sequence[int]
    """Indices of the rows that take part."""
    protocol: StatisticsProtocol

    def against(self, base: int | None) -> dict[tuple[int, int], Difference]:
        """Differences from the baseline's row by (measure, row), corrected over rows × measures.

        Measures without a direction are not tested.
        """
        tested = [m for m in self.members if self.measures[m].better is not Better.NONE]
        places = [(m, r) for m in tested for r in self.ranked if r != base]
        if base is None or not places:
            return {}
        found = paired_differences(
            np.stack([self.values[place] for place in places]),
            np.stack([self.values[m, base] for m, _ in places]),
            [self.measures[m] for m, _ in places],
            self.protocol,
        )
        return {place: difference for place, difference in zip(places, found, strict=True) if difference.n}

    def orders(self, against: Mapping[tuple[int, int], Difference], *, letters: bool) -> dict[int, Order]:
        """The order by measure, from all pairs of rows that were measured, corrected over pairs × measures.

        A row that is worse than the baseline, by the tests ``against`` it, is never marked.
        """
        turned = {m: _scores(self.values[m], self.measures[m]) for m in self.members}
        present = {m: [r for r in self.ranked if np.isfinite(turned[m][r]).any()] for m in self.members}
        present = {m: rows for m, rows in present.items() if rows}
        pairs = {m: np.triu_indices(len(rows), 1) for m, rows in present.items()}
        differences = [turned[m][rows][pairs[m][0]] - turned[m][rows][pairs[m][1]] for m, rows in present.items()]
        if not differences:
            return {}
        tests = paired_tests(np.concatenate(differences))
        p, estimates = holm(tests.p), tests.estimate
        out = {}
        begin = 0
        for m, rows in present.items():
            here = slice(begin, begin + len(pairs[m][0]))
            begin = here.stop
            better = np.zeros((len(rows), len(rows)), dtype=np.bool_)
            significant = p[here] <= self.protocol.alpha
            better[pairs[m]] = significant & (estimates[here] > 0)
            better[pairs[m][::-1]] = significant & (estimates[here] < 0)
            means = np.array([_mean(turned[m][r]) for r in rows])
            found = [against.get((m, r)) for r in rows]
            worse = np.array([each is not None and each.verdict is Verdict.WORSE for each in found])
            out[m] = _order(rows, means, better, worse, int(np.isfinite(p[here]).sum()), letters=letters)
        return out


def _order(
    rows: Sequence[int], means: FloatArray, better: BoolArray, worse: BoolArray, tests: int, *, letters: bool
) -> Order:
    ranks = [(int(first), int(last)) for first, last in rank_intervals(better)]
    names = tie_groups(better | better.T) if letters else ("",) * len(rows)
    # Ranks or letters that all rows share are not shown.
    ranked, grouped = len(set(ranks)) > 1, len(set(names)) > 1
    best, second = best_set(means, better), second_set(means, better)
    measured = np.isfinite(means)
    unmarked = _unmarked(best, measured & ~best, means, worse)
    if unmarked or _unmarked(second, measured & ~best & ~second, means, worse):
        second = np.zeros_like(second)
    if unmarked:
        best = np.zeros_like(best)
    places = {
        row: Place(
            Mark.BEST if best[i] else Mark.SECOND if second[i] else Mark.PLAIN,
            ranks[i] if ranked and ranks[i] != (1, len(rows)) else None,
            names[i] if grouped else "",
        )
        for i, row in enumerate(rows)
    }
    return Order(places, tests, unmarked)


def _unmarked(chosen: BoolArray, others: BoolArray, means: FloatArray, worse: BoolArray) -> Unmarked | None:
    """Why a set is not marked; None where it is."""
    if not others.any() or not chosen.any():
        return Unmarked.TIED
    if SHARE * chosen.sum() > np.isfinite(means).sum():
        return Unmarked.LARGE
    if (chosen & worse).any():
        return Unmarked.WORSE
    return Unmarked.UNORDERED if means[chosen].min() < means[others].max() else None


def _mean(values: FloatArray) -> float:
    """Over the seeds that were measured; NaN, which is in no set, where these are too few."""
    measured = values[np.isfinite(values)]
    return float(measured.mean()) if len(measured) >= LEAST_SEEDS else float("nan")


def _scores(values: FloatArray, measure: Measure) -> FloatArray:
    """Turned so that more is better; NaN throughout for a measure without a direction."""
    found = measure.score(values)
    return found if found is not None else np.full_like(values, np.nan)
