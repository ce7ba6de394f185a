"""Statistics of every cell of a board by the protocol, computed once and read by every format.

Within a block (task × backbone × ruleset) the primary measures have two families, each corrected by Holm on its own:
all methods against the baseline row, and all pairs of methods. The first gives the marks, the second the best set, the
ranks and the letters; a baseline that is itself a ranked method is tested in the second. Every other measure is
exploratory and corrected as if it were a further primary one, so that its verdict is never milder than theirs and the
same in every layout. Reference rows and rows with a diverged run are in no family; untested measures are shown with
their means alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

import numpy as np

from genrec_unlearn_bench.evaluation.metric import Better
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.equivalence import Equivalence, tosts
from genrec_unlearn_bench.reporting.statistics.paired import (
    BoolArray,
    FloatArray,
    holm,
    paired_tests,
    sign_flip,
    t_interval,
)
from genrec_unlearn_bench.reporting.statistics.ranks import best_set, rank_intervals, second_set, tie_groups
from genrec_unlearn_bench.reporting.wording import finite

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


@dataclass(frozen=True)
class Cell:
    """One row's measure.

    Attributes:
        mean, sd, low, high: Over seeds; sd from two seeds up, low and high the t interval. None = not measured.
        seeds: Value by seed, in the order of ``Block.seeds``; None where there is none.
        rank: Interval of ranks, 1 = best; None for rows that are not ranked, where the tests leave every rank open, and
            where all rows have the same interval.
        letters: Rows that share a letter are not separable (primary measures alone).
        equivalence: To the oracle's row.
    """

    mean: float | None
    sd: float | None
    low: float | None
    high: float | None
    n: int
    seeds: tuple[float | None, ...]
    mark: Mark = Mark.PLAIN
    rank: tuple[int, int] | None = None
    letters: str = ""
    difference: Difference | None = None
    equivalence: Equivalence | None = None

    def minus(self, other: Cell) -> list[float]:
        """Differences from another cell of the block, over the seeds that both have."""
        pairs = zip(self.seeds, other.seeds, strict=True)
        return [a - b for a, b in pairs if a is not None and b is not None]


@dataclass(frozen=True, eq=False)
class BlockAnalysis:
    """One block's cells, by the label of the row and the measure."""

    block: Block
    baseline: Row | None
    primary: tuple[Measure, ...]
    measures: tuple[Measure, ...]
    cells: Mapping[tuple[str, Measure], Cell]
    against_baseline: int
    """Tests in the confirmatory family against the baseline."""
    pairs: int
    """Tests in the confirmatory family of all pairs."""
    unmarked: Mapping[Measure, Unmarked | None]
    """Why no best set is marked on a measure, None where one is; without the measures on which nothing is ranked."""
    margins: Mapping[Measure, float | None]
    """Margin of equivalence to the oracle."""

    def cell(self, row: Row, measure: Measure) -> Cell:
        return self.cells[row.label, measure]


@dataclass(frozen=True, eq=False)
class Analysis:
    """A board with its statistics."""

    board: Board
    protocol: StatisticsProtocol
    blocks: tuple[BlockAnalysis, ...]

    def by_table(self) -> tuple[tuple[BlockAnalysis, ...], ...]:
        """Blocks that may share a table: those of one regime, ruleset and scale."""
        out: dict[tuple[str, ...], list[BlockAnalysis]] = {}
        for block in self.blocks:
            out.setdefault(block.block.key.table, []).append(block)
        return tuple(tuple(blocks) for blocks in out.values())


def analyse(
    board: Board,
    protocol: StatisticsProtocol,
    *,
    measures: Sequence[Measure],
    primary: Sequence[Measure] = (),
    baseline: str | None = None,
    untested: frozenset[Measure] = frozenset(),
) -> Analysis:
    """Every block of a board.

    Args:
        measures: What the table shows; the primary ones are added where they are missing.
        untested: Those that are in no family.
        primary: The confirmatory family's measures; the protocol's where none are given.
        baseline: Label of the row to test against; the protocol's where none is given. A block without such a row
            has no tests against it.
    """
    chosen = primary or protocol.measures(protocol.primary)
    shown = tuple(dict.fromkeys((*chosen, *measures)))
    blocks = [analyse_block(one, protocol, shown, chosen, baseline=baseline, untested=untested) for one in board.blocks]
    return Analysis(board, protocol, tuple(blocks))


def analyse_block(
    block: Block,
    protocol: StatisticsProtocol,
    shown: Sequence[Measure],
    primary: Sequence[Measure],
    *,
    baseline: str | None = None,
    untested: frozenset[Measure] = frozenset(),
) -> BlockAnalysis:
    """One block; see ``analyse``."""
    values = np.stack([block.values(measure) for measure in shown])
    base = next((i for i, row in enumerate(block.rows) if row.label == (baseline or protocol.baseline)), None)
    ranked = [i for i, row in enumerate(block.rows) if row.kind == "method" and not row.diverged]
    confirmatory = [i for i, m in enumerate(shown) if m in primary]
    exploratory = [i for i, m in enumerate(shown) if m not in primary and m not in untested]
    differences: dict[tuple[int, int], Difference] = {}
    orders: dict[int, _Order] = {}
    tests = 0
    # The confirmatory family is the last, as the primary measures keep what they have there.
    for family in (*([*confirmatory, m] for m in exploratory), confirmatory):
        found, tests = _against(values, shown, family, ranked, base, protocol)
        differences |= found
        worse = {place for place, one in found.items() if one.verdict is Verdict.WORSE}
        orders |= _orders(values, shown, family, ranked, worse, protocol.alpha, letters=family is confirmatory)
    oracle = block.rows.index(block.oracle) if block.oracle is not None else None
    margins = [block.margin(measure, protocol.equivalence_quantile) for measure in shown]
    by_row = values.reshape(-1, values.shape[-1])
    summary = t_interval(by_row, confidence=protocol.confidence)
    numbers = zip(summary.mean, summary.sd, summary.low, summary.high, summary.n, by_row.tolist(), strict=True)
    cells: dict[tuple[str, Measure], Cell] = {}
    for m, measure in enumerate(shown):
        allowed = margins[m]
        likeness = tosts(values[m] - values[m, oracle], allowed) if oracle is not None and allowed is not None else ()
        for r, row in enumerate(block.rows):
            mean, sd, low, high, n, seeds = next(numbers)
            place = orders[m].places.get(r, _Place()) if m in orders else _Place()
            # To the oracle, for all that share a seed with it.
            equal = likeness[r] if likeness and r != oracle and likeness[r].n else None
            summed = (finite(mean), finite(sd), finite(low), finite(high), int(n), tuple(map(finite, seeds)))
            cells[row.label, measure] = Cell(*summed, *place, differences.get((m, r)), equal)
    return BlockAnalysis(
        block=block,
        baseline=block.rows[base] if base is not None else None,
        primary=tuple(shown[m] for m in confirmatory),
        measures=tuple(shown),
        cells=cells,
        against_baseline=tests,
        pairs=sum(orders[m].tests for m in confirmatory if m in orders),
        unmarked={shown[m]: order.unmarked for m, order in orders.items()},
        margins=dict(zip(shown, margins, strict=True)),
    )


def paired_differences(
    first: FloatArray, second: FloatArray, measures: Sequence[Measure], protocol: StatisticsProtocol
) -> tuple[Difference, ...]:
    """K differences between two rows, corrected as one family.

    For a measure that is best near the oracle, the difference is that of the distances, whatever their sign. A measure
    without a better side has no verdict better or worse.

    Args:
        first, second: [K, S] values by seed; NaN = not measured.
        measures: [K] of each row of these.
    """
    near = np.array([measure.better is Better.ORACLE for measure in measures])[:, None]
    differences = np.where(near, np.abs(first) - np.abs(second), first - second)
    tests = paired_tests(differences, confidence=protocol.confidence)
    corrected = holm(tests.p)
    flips = sign_flip(np.where((tests.n >= protocol.sign_flip_from)[:, None], differences, np.nan))
    out = []
    for i, measure in enumerate(measures):
        # Without variance p is the sign-flip's smallest, which few seeds cannot bring below alpha.
        if tests.n[i] < 2 or (tests.exact[i] and tests.p[i] > protocol.alpha):
            verdict = Verdict.UNDERPOWERED
        elif not corrected[i] <= protocol.alpha or measure.better is Better.NONE:
            verdict = Verdict.NOT_SEPARABLE
        else:
            better = (tests.estimate[i] > 0) == (measure.better is Better.HIGHER)
            verdict = Verdict.BETTER if better else Verdict.WORSE
        p, p_holm, p_sign_flip = map(finite, (tests.p[i], corrected[i], flips[i]))
        low, high, effect = map(finite, (tests.low[i], tests.high[i], tests.effect[i]))
        estimate, n, exact = float(tests.estimate[i]), int(tests.n[i]), bool(tests.exact[i])
        out.append(Difference(estimate, low, high, n, p, p_holm, p_sign_flip, effect, exact, verdict))
    return tuple(out)


def _against(
    values: FloatArray,
    measures: Sequence[Measure],
    family: Sequence[int],
    ranked: Sequence[int],
    base: int | None,
    protocol: StatisticsProtocol,
) -> tuple[dict[tuple[int, int], Difference], int]:
    """Differences from the baseline's row by (measure, row), corrected over rows × measures of a family, or over
    pairs × measures where the baseline is ranked; and the number of these tests.

    Measures without a direction are not tested. ``values``: [measures, rows, seeds] of the whole block.
    """
    if base is None:
        return {}, 0
    pairs = [(r, base) for r in ranked if r != base]
    if base in ranked:
        pairs += [pair for pair in combinations(ranked, 2) if base not in pair]
    places = [(m, *pair) for m in family if measures[m].better is not Better.NONE for pair in pairs]
    if not places:
        return {}, 0
    m, r, other = np.transpose(places)
    found = paired_differences(values[m, r], values[m, other], [measures[i] for i in m], protocol)
    own = {(m, r): one for (m, r, other), one in zip(places, found, strict=True) if other == base and one.n}
    return own, sum(one.p is not None for one in found)


class _Place(NamedTuple):
    """Mark, ranks and letters of one row."""

    mark: Mark = Mark.PLAIN
    rank: tuple[int, int] | None = None
    letters: str = ""


class _Order(NamedTuple):
    """Order of the ranked rows on one measure, and why no row is marked; None where the best set is."""

    places: Mapping[int, _Place]
    tests: int
    unmarked: Unmarked | None


def _orders(
    values: FloatArray,
    measures: Sequence[Measure],
    family: Sequence[int],
    ranked: Sequence[int],
    worse: set[tuple[int, int]],
    alpha: float,
    *,
    letters: bool,
) -> dict[int, _Order]:
    """The order by measure, from all pairs of rows that were measured, corrected over pairs × measures.

    No set with a row in it that is ``worse`` than the baseline, by (measure, row), is marked.
    """
    turned = {m: measures[m].score(values[m]) for m in family}
    present = {m: [r for r in ranked if np.isfinite(turned[m][r]).any()] for m in family}
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
        significant = p[here] <= alpha
        better[pairs[m]] = significant & (estimates[here] > 0)
        better[pairs[m][::-1]] = significant & (estimates[here] < 0)
        means = np.array([_mean(turned[m][r]) for r in rows])
        below = np.array([(m, r) in worse for r in rows])
        out[m] = _order(rows, means, better, below, int(np.isfinite(p[here]).sum()), letters=letters)
    return out


def _order(
    rows: Sequence[int], means: FloatArray, better: BoolArray, worse: BoolArray, tests: int, *, letters: bool
) -> _Order:
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
    places = {}
    for i, row in enumerate(rows):
        mark = Mark.BEST if best[i] else Mark.SECOND if second[i] else Mark.PLAIN
        rank = ranks[i] if ranked and ranks[i] != (1, len(rows)) else None
        places[row] = _Place(mark, rank, names[i] if grouped else "")
    return _Order(places, tests, unmarked)


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
