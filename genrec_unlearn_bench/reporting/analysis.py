"""Statistics of every cell of a board by the protocol, computed once and read by every format.

Within a block (task × backbone × ruleset) there are two families for the primary measures and two for the exploratory
ones, each corrected by Holm on its own: all methods against the baseline row, and all pairs of methods. The first
gives the marks, the second the best set, the ranks and the letters. Reference rows and rows with a diverged run are in
neither, and untested measures (the cost columns of other layouts) are shown with their means alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Level
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.families import Difference, Family, Mark, Order, Place, Unmarked, Verdict
from genrec_unlearn_bench.reporting.measure import GAP, Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.equivalence import Equivalence, margin, tosts
from genrec_unlearn_bench.reporting.statistics.paired import t_interval
from genrec_unlearn_bench.reporting.wording import finite

__all__ = ["Analysis", "BlockAnalysis", "Cell", "Difference", "Mark", "Unmarked", "Verdict", "analyse", "analyse_block"]

FloatArray = NDArray[np.float64]
UNRANKED = Place()


@dataclass(frozen=True)
class Cell:
    """One row's measure.

    Attributes:
        mean, sd, low, high: Over seeds; sd from two seeds up, low and high the t interval. None = not measured.
        seeds: Value by seed, in the order of ``BlockAnalysis.seeds``; None where there is none.
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
    primary: Sequence[Measure] | None = None,
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
    chosen = primary if primary is not None else protocol.measures(protocol.primary)
    options: dict[str, Any] = {
        "measures": tuple(dict.fromkeys((*chosen, *measures))),
        "primary": chosen,
        "baseline": baseline or protocol.baseline,
        "untested": untested,
    }
    return Analysis(board, protocol, tuple(analyse_block(block, protocol, **options) for block in board.blocks))


def analyse_block(
    block: Block,
    protocol: StatisticsProtocol,
    *,
    measures: Sequence[Measure],
    primary: Sequence[Measure],
    baseline: str,
    untested: frozenset[Measure] = frozenset(),
) -> BlockAnalysis:
    """One block; see ``analyse``."""
    shown = tuple(measures)
    values = np.stack([block.values(measure) for measure in shown])
    base = next((i for i, row in enumerate(block.rows) if row.label == baseline), None)
    ranked = [i for i, row in enumerate(block.rows) if row.kind == "method" and not row.diverged]
    confirmatory = [i for i, m in enumerate(shown) if m in primary]
    exploratory = [i for i, m in enumerate(shown) if m not in primary and m not in untested]
    differences: dict[tuple[int, int], Difference] = {}
    orders: dict[int, Order] = {}
    for members in (confirmatory, exploratory):
        family = Family(values, shown, members, ranked, protocol)
        differences |= family.against(base)
        orders |= family.orders(differences, letters=members is confirmatory)
    oracle = block.rows.index(block.oracle) if block.oracle is not None else None
    margins = [equivalence_margin(block, measure, protocol) for measure in shown]
    by_row = values.reshape(-1, values.shape[-1])
    summary = t_interval(by_row, confidence=protocol.confidence)
    numbers = zip(summary.mean, summary.sd, summary.low, summary.high, summary.n, by_row.tolist(), strict=True)
    cells: dict[tuple[str, Measure], Cell] = {}
    for m, measure in enumerate(shown):
        likeness = _equivalences(values[m], oracle, margins[m])
        places = orders[m].places if m in orders else {}
        for r, row in enumerate(block.rows):
            mean, sd, low, high, n, seeds = next(numbers)
            place = places.get(r, UNRANKED)
            cells[row.label, measure] = Cell(
                mean=finite(mean),
                sd=finite(sd),
                low=finite(low),
                high=finite(high),
                n=int(n),
                seeds=tuple(map(finite, seeds)),
                mark=place.mark,
                rank=place.rank,
                letters=place.letters,
                difference=differences.get((m, r)),
                equivalence=likeness.get(r),
            )
    tests = sum(difference.p is not None for (m, _), difference in differences.items() if m in confirmatory)
    return BlockAnalysis(
        block=block,
        baseline=block.rows[base] if base is not None else None,
        primary=tuple(shown[m] for m in confirmatory),
        measures=shown,
        cells=cells,
        against_baseline=tests,
        pairs=sum(orders[m].tests for m in confirmatory if m in orders),
        unmarked={shown[m]: order.unmarked for m, order in orders.items()},
        margins=dict(zip(shown, margins, strict=True)),
    )


def equivalence_margin(block: Block, measure: Measure, protocol: StatisticsProtocol) -> float | None:
    """How far retrained models lie apart on a measure, and no less than one test example moves it.

    None where being like the oracle means nothing: for token overlap and cost, as the oracle keeps the original's table
    and pays for the retraining. A gap of the oracle's row is 0 in every seed, so its margin is that of the measure.
    """
    own = measure.base
    if block.oracle is None or f"{GAP}{own.metric}" not in metric_specs():
        return None
    examples = block.oracle.first.examples.get(own)
    low, high = own.spec.range
    step = (high - low) / examples if own.spec.level is Level.USER and examples and np.isfinite(high - low) else 0.0
    values = block.values(own)[block.rows.index(block.oracle)]
    return margin(values, quantile=protocol.equivalence_quantile, resolution=step)


def _equivalences(values: FloatArray, oracle: int | None, allowed: float | None) -> dict[int, Equivalence]:
    """By row, for all that share a seed with the oracle's."""
    if oracle is None or allowed is None:
        return {}
    found = tosts(values - values[oracle], allowed)
    return {row: each for row, each in enumerate(found) if row != oracle and each.n}
