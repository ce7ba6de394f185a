"""What the statistics protocol says about every cell of a board, computed once and read by every format.

Within a block (task × backbone × ruleset) there are two families for the primary measures and two for the exploratory
ones, each corrected by Holm on its own: all methods against the baseline row, and all pairs of methods. The first
gives the marks, the second the best set, the ranks and the letters. Reference rows and rows with a diverged run are in
neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.measure import GAP, Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.equivalence import Equivalence, margin, tost
from genrec_unlearn_bench.reporting.statistics.holm import holm
from genrec_unlearn_bench.reporting.statistics.paired import PairedTests, paired_tests, t_interval
from genrec_unlearn_bench.reporting.statistics.ranks import best_set, rank_intervals, second_set, tie_groups
from genrec_unlearn_bench.reporting.statistics.sign_flip import sign_flip

__all__ = ["Analysis", "BlockAnalysis", "Cell", "Difference", "Mark", "Verdict", "analyse", "analyse_block"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Mark(StrEnum):
    """Bold, underlined or plain."""

    BEST = "best"
    SECOND = "second"
    PLAIN = "plain"


class Verdict(StrEnum):
    """What a test against the baseline says."""

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


@dataclass(frozen=True)
class Cell:
    """One row's measure.

    Attributes:
        mean, sd, low, high: Over seeds; sd from two seeds up, low and high the t interval. None = not measured.
        seeds: Value by seed, in the order of ``BlockAnalysis.seeds``; None where there is none.
        rank: Interval of ranks, 1 = best; None for rows that are not ranked.
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
    separable: Mapping[Measure, bool]
    """Whether the best method could be told from any other on a measure; where not, nothing is marked best."""
    margins: Mapping[Measure, float | None]
    """Margin of equivalence to the oracle."""

    def cell(self, row: Row, measure: Measure) -> Cell:
        """The cell of a row."""
        return self.cells[row.label, measure]


@dataclass(frozen=True, eq=False)
class Analysis:
    """A board with its statistics."""

    board: Board
    protocol: StatisticsProtocol
    blocks: tuple[BlockAnalysis, ...]


def analyse(
    board: Board,
    protocol: StatisticsProtocol,
    *,
    measures: Sequence[Measure],
    primary: Sequence[Measure] | None = None,
    baseline: str | None = None,
) -> Analysis:
    """Every block of a board.

    Args:
        measures: What the table shows; the primary ones are added where they are missing.
        primary: The confirmatory family's measures; the protocol's where none are given.
        baseline: Label of the row to test against; the protocol's where none is given. A block without such a row
            has no tests against it.
    """
    chosen = tuple(primary) if primary is not None else protocol.primary_measures()
    shown = tuple(dict.fromkeys((*chosen, *measures)))
    blocks = (
        analyse_block(block, protocol, measures=shown, primary=chosen, baseline=baseline or protocol.baseline)
        for block in board.blocks
    )
    return Analysis(board, protocol, tuple(blocks))


def analyse_block(
    block: Block,
    protocol: StatisticsProtocol,
    *,
    measures: Sequence[Measure],
    primary: Sequence[Measure],
    baseline: str,
) -> BlockAnalysis:
    """One block; see ``analyse``."""
    shown = tuple(measures)
    values = np.stack([block.values(measure) for measure in shown]) if shown else np.zeros((0, len(block.rows), 0))
    base = next((i for i, row in enumerate(block.rows) if row.label == baseline), None)
    ranked = [i for i, row in enumerate(block.rows) if row.kind == "method" and not row.diverged]
    families = [[i for i, m in enumerate(shown) if (m in primary) == wanted] for wanted in (True, False)]
    differences: dict[tuple[int, int], Difference] = {}
    orders: dict[int, _Order] = {}
    for family in families:
        differences |= _against(values, shown, family, base, ranked, protocol)
        orders |= _all_pairs(values, shown, family, ranked, protocol, letters=family is families[0])
    oracle = block.rows.index(block.oracle) if block.oracle is not None else None
    # A gap of the oracle's row is 0 in every seed; its margin is that of the measure itself.
    own = [block.values(each) if each != measure else values[m] for m, (measure, each) in enumerate(_own(shown))]
    margins = [_margin(numbers[oracle], protocol) if oracle is not None else None for numbers in own]
    cells: dict[tuple[str, Measure], Cell] = {}
    for m, measure in enumerate(shown):
        summary = t_interval(values[m], confidence=protocol.confidence)
        for r, row in enumerate(block.rows):
            order = orders[m].of(r) if m in orders else _NOWHERE
            cells[row.label, measure] = Cell(
                mean=_number(summary.mean[r]),
                sd=_number(summary.sd[r]),
                low=_number(summary.low[r]),
                high=_number(summary.high[r]),
                n=int(summary.n[r]),
                seeds=tuple(_number(value) for value in values[m, r]),
                mark=order.mark,
                rank=order.rank,
                letters=order.letters,
                difference=differences.get((m, r)),
                equivalence=_equivalence(values[m], r, oracle, margins[m], protocol),
            )
    tests = sum(difference.p is not None for (m, _), difference in differences.items() if m in families[0])
    return BlockAnalysis(
        block=block,
        baseline=block.rows[base] if base is not None else None,
        primary=tuple(shown[m] for m in families[0]),
        measures=shown,
        cells=cells,
        against_baseline=tests,
        pairs=sum(orders[m].tests for m in families[0] if m in orders),
        separable={shown[m]: order.separable for m, order in orders.items()},
        margins=dict(zip(shown, margins, strict=True)),
    )


@dataclass(frozen=True)
class _Place:
    mark: Mark = Mark.PLAIN
    rank: tuple[int, int] | None = None
    letters: str = ""


_NOWHERE = _Place()


@dataclass(frozen=True)
class _Order:
    """Marks, ranks and letters of the ranked rows on one measure."""

    places: Mapping[int, _Place]
    tests: int
    separable: bool

    def of(self, row: int) -> _Place:
        return self.places.get(row, _NOWHERE)


def _against(
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
    turned = np.stack([_scores(values[m, r], measures[m]) - _scores(values[m, base], measures[m]) for m, r in places])
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
            low=_number(shown.low[i]),
            high=_number(shown.high[i]),
            n=int(tests.n[i]),
            p=_number(tests.p[i]),
            p_holm=_number(corrected[i]),
            p_sign_flip=_number(flips[i]),
            effect=_number(shown.effect[i]),
            exact=bool(tests.exact[i]),
            verdict=_verdict(tests, corrected, i, protocol),
        )
    return out


def _verdict(tests: PairedTests, corrected: FloatArray, i: int, protocol: StatisticsProtocol) -> Verdict:
    if tests.n[i] < 2:
        return Verdict.UNDERPOWERED
    if corrected[i] < protocol.alpha:
        return Verdict.BETTER if tests.estimate[i] > 0 else Verdict.WORSE
    # Without variance the p is the sign-flip's smallest, which few seeds cannot bring below alpha.
    if tests.exact[i] and tests.p[i] >= protocol.alpha:
        return Verdict.UNDERPOWERED
    return Verdict.NOT_SEPARABLE


def _all_pairs(
    values: FloatArray,
    measures: Sequence[Measure],
    family: Sequence[int],
    ranked: Sequence[int],
    protocol: StatisticsProtocol,
    *,
    letters: bool,
) -> dict[int, _Order]:
    """All pairs of ranked rows that were measured, corrected over pairs × measures of one family."""
    present = {m: [r for r in ranked if np.isfinite(_scores(values[m, r], measures[m])).any()] for m in family}
    present = {m: rows for m, rows in present.items() if rows}
    pairs = [(m, a, b) for m, rows in present.items() for i, a in enumerate(rows) for b in rows[i + 1 :]]
    p = np.zeros(0)
    estimates = np.zeros(0)
    if pairs:
        scores = {(m, r): _scores(values[m, r], measures[m]) for m, rows in present.items() for r in rows}
        tests = paired_tests(np.stack([scores[m, a] - scores[m, b] for m, a, b in pairs]))
        p, estimates = holm(tests.p), tests.estimate
    out = {}
    begin = 0
    for m, rows in present.items():
        count = len(rows) * (len(rows) - 1) // 2
        better = np.zeros((len(rows), len(rows)), dtype=np.bool_)
        above = np.triu_indices(len(rows), 1)
        significant = p[begin : begin + count] < protocol.alpha
        better[above] = significant & (estimates[begin : begin + count] > 0)
        better[above[1], above[0]] = significant & (estimates[begin : begin + count] < 0)
        tests_here = int(np.isfinite(p[begin : begin + count]).sum())
        begin += count
        means = np.array([np.nanmean(_scores(values[m, r], measures[m])) for r in rows])
        out[m] = _order(rows, means, better, tests_here, letters=letters)
    return out


def _order(rows: Sequence[int], means: FloatArray, better: BoolArray, tests: int, *, letters: bool) -> _Order:
    separable = better | better.T
    ranks = rank_intervals(better)
    names = tie_groups(separable) if letters else ("",) * len(rows)
    nobody = np.zeros(len(rows), dtype=np.bool_)
    best = best_set(means, better)
    # Where none can be told from the best all are best, and a column in bold throughout says less than one without.
    marked = not best.all()
    best, second = (best, second_set(means, better)) if marked else (nobody, nobody)
    places = {
        row: _Place(
            Mark.BEST if best[i] else Mark.SECOND if second[i] else Mark.PLAIN,
            (int(ranks[i, 0]), int(ranks[i, 1])),
            names[i],
        )
        for i, row in enumerate(rows)
    }
    return _Order(places, tests, marked)


def _scores(values: FloatArray, measure: Measure) -> FloatArray:
    """Turned so that more is better; NaN throughout for a measure without a direction."""
    sign = measure.score(1.0)
    if sign is None:
        return np.full_like(values, np.nan)
    return -np.abs(values) if measure.score(-1.0) == sign else values * sign


def _own(measures: Sequence[Measure]) -> list[tuple[Measure, Measure]]:
    """Each measure with the one that it is a gap of, which is itself where it is none."""
    return [(measure, measure._replace(metric=measure.metric.removeprefix(GAP))) for measure in measures]


def _margin(oracle: FloatArray, protocol: StatisticsProtocol) -> float | None:
    allowed: float | None = margin(oracle[np.isfinite(oracle)], quantile=protocol.equivalence_quantile)
    return allowed


def _equivalence(
    values: FloatArray, row: int, oracle: int | None, allowed: float | None, protocol: StatisticsProtocol
) -> Equivalence | None:
    if oracle is None or row == oracle or allowed is None:
        return None
    differences = values[row] - values[oracle]
    finite = differences[np.isfinite(differences)]
    return tost(finite, allowed) if len(finite) else None


def _number(value: np.float64 | float) -> float | None:
    return float(value) if np.isfinite(value) else None
