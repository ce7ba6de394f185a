"""Facts behind some tables, counted: seeds, families, verdicts, margins, what diverged or is missing.

The notes below a table and the paragraph on the statistics both take their numbers from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Cell, Unmarked, Verdict
from genrec_unlearn_bench.reporting.board import Row
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference, smallest_p
from genrec_unlearn_bench.reporting.tables import Entry, Table

Span = tuple[float, float]
Reasons = tuple[tuple[Unmarked, tuple[str, ...]], ...]
"""Why measures have no best set, each reason with the titles of its measures."""


class Short(NamedTuple):
    """Rows of one block of which ``n`` of ``of`` runs exist, or have diverged."""

    labels: tuple[str, ...]
    task: str
    backbone: str
    n: int
    of: int


class Underpowered(NamedTuple):
    """Rows with ``n`` seeds of the baseline for which no result could have reached alpha."""

    labels: tuple[str, ...]
    n: int
    exact: bool
    """Every seed differs by the same number, so that only the sign flip is left."""
    least_p: float
    """The smallest p there is, before correction."""


@dataclass(frozen=True, eq=False)
class Facts:
    """Counts over blocks (task × backbone); everything about tests is of the primary measures."""

    protocol: StatisticsProtocol
    blocks: tuple[BlockAnalysis, ...]
    entries: tuple[Entry, ...]
    shown: frozenset[str]
    """Labels of the tables' lines; a layout may show fewer rows than were tested."""

    def keys(self, part: str) -> tuple[str, ...]:
        """Values of a field of ``BlockKey`` in order of appearance."""
        return tuple(dict.fromkeys(getattr(block.block.key, part) for block in self.blocks))

    @property
    def primary(self) -> tuple[Measure, ...]:
        """The primary measures that were measured at all."""
        found = dict.fromkeys(measure for block in self.blocks for measure in block.primary)
        return tuple(measure for measure in found if any(cell.n for _, _, cell in self._cells(measure)))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Rows that others were tested against."""
        return tuple(dict.fromkeys(block.baseline.label for block in self.blocks if block.baseline is not None))

    @property
    def seeds(self) -> tuple[int, int]:
        """Fewest and most seeds of a block."""
        counts = [len(block.block.seeds) for block in self.blocks]
        return min(counts), max(counts)

    @property
    def against(self) -> Span | None:
        """Smallest and largest family against the baseline; None where there was no test."""
        return _span(block.against_baseline for block in self.blocks if block.against_baseline)

    @property
    def pairs(self) -> Span | None:
        """Smallest and largest family of all pairs."""
        return _span(block.pairs for block in self.blocks if block.pairs)

    def rows(self, kind: str) -> tuple[str, ...]:
        """Labels of the rows of a kind: references in the protocol's order, methods by name."""
        found = dict.fromkeys(row.label for block in self.blocks for row in block.block.rows if row.kind == kind)
        return tuple(found) if kind == "reference" else tuple(sorted(found))

    @cached_property
    def fewer(self) -> tuple[Short, ...]:
        """Rows that lack seeds which others of their block have."""
        return self._grouped(
            (row.label, block, len(row.results), len(block.block.seeds))
            for block in self.blocks
            for row in block.block.rows
            if len(row.results) < len(block.block.seeds)
        )

    @cached_property
    def diverged(self) -> tuple[Short, ...]:
        """Rows with diverged runs, their number, and how many runs there are."""
        return self._grouped(
            (row.label, block, len(row.diverged), len(row.results))
            for block in self.blocks
            for row in block.block.rows
            if row.diverged
        )

    @cached_property
    def underpowered(self) -> tuple[Underpowered, ...]:
        """Rows of the tables with an underpowered test against the baseline."""
        seen: dict[tuple[int, bool], dict[str, None]] = {}
        for entry in self.entries:
            difference = entry.cell.difference if entry.cell is not None else None
            if difference is not None and entry.row is not None and difference.verdict is Verdict.UNDERPOWERED:
                seen.setdefault((difference.n, difference.exact), {})[entry.row.label] = None
        return tuple(
            Underpowered(tuple(labels), n, exact, smallest_p(n, sign_flip=exact))
            for (n, exact), labels in sorted(seen.items())
        )

    @cached_property
    def unmarked(self) -> Mapping[Reasons, list[BlockAnalysis]]:
        """Blocks with measures of the tables on which no best set is marked, by the reasons."""
        shown = dict.fromkeys(entry.column.measure for entry in self.entries)
        out: dict[Reasons, list[BlockAnalysis]] = {}
        for block in self.blocks:
            reasons: dict[Unmarked, list[str]] = {}
            for measure in shown:
                reason = block.unmarked.get(measure)
                if reason is not None:
                    reasons.setdefault(reason, []).append(measure.title)
            ranked = sum(row.kind == "method" and not row.diverged for row in block.block.rows)
            if reasons and ranked > 1:
                out.setdefault(tuple((why, tuple(titles)) for why, titles in reasons.items()), []).append(block)
        return out

    @cached_property
    def verdicts(self) -> Mapping[Verdict, int]:
        """Verdicts of the tests against the baseline, counted."""
        return Counter(cell.difference.verdict for _, _, cell in self._primary() if cell.difference is not None)

    @cached_property
    def likeness(self) -> Mapping[Likeness, int]:
        """Verdicts of the equivalence tests of the methods, counted; diverged rows left out."""
        return Counter(
            cell.equivalence.verdict
            for _, row, cell in self._primary()
            if cell.equivalence is not None and row.kind == "method" and not row.diverged
        )

    @cached_property
    def effects(self) -> tuple[float, float, float] | None:
        """Smallest, median and largest magnitude of the standardised differences from the baseline."""
        found = [
            abs(cell.difference.effect)
            for _, _, cell in self._primary()
            if cell.difference is not None and cell.difference.effect is not None
        ]
        return (min(found), float(np.median(found)), max(found)) if found else None

    def margins(self, measure: Measure) -> Span | None:
        """Smallest and largest margin of equivalence to the oracle."""
        found = (block.margins.get(measure) for block in self.blocks)
        return _span(margin for margin in found if margin is not None)

    def detectable(self, measure: Measure) -> float | None:
        """Median over methods and blocks of the least difference from the baseline that the first Holm step finds."""
        found = []
        for block, row, cell in self._cells(measure):
            if cell.difference is None or block.baseline is None or cell.difference.n < 2:
                continue
            differences = cell.minus(block.cell(block.baseline, measure))
            level = self.protocol.alpha / max(block.against_baseline, 1)
            sd = float(np.std(differences, ddof=1))
            if sd and not row.diverged:
                found.append(detectable_difference(sd, len(differences), level, power=self.protocol.power))
        return float(np.median(found)) if found else None

    def _cells(self, measure: Measure) -> list[tuple[BlockAnalysis, Row, Cell]]:
        return [
            (block, row, block.cells[row.label, measure])
            for block in self.blocks
            for row in block.block.rows
            if (row.label, measure) in block.cells
        ]

    def _primary(self) -> list[tuple[BlockAnalysis, Row, Cell]]:
        return [found for measure in self.primary for found in self._cells(measure)]

    def _grouped(self, found: Iterable[tuple[str, BlockAnalysis, int, int]]) -> tuple[Short, ...]:
        """(label, block, n, of) of rows that the tables show, those of one block and number together."""
        labels: dict[tuple[str, str, int, int], list[str]] = {}
        for label, block, n, of in found:
            if label in self.shown:
                labels.setdefault((block.block.key.task, block.block.key.backbone, n, of), []).append(label)
        return tuple(Short(tuple(names), *place) for place, names in labels.items())


def facts(tables: Sequence[Table]) -> Facts:
    """The facts of tables of one protocol; a block that several of them show counts once."""
    blocks = {id(block): block for table in tables for block in table.blocks}
    lines = [line for table in tables for section in table.sections for line in section.lines]
    entries = tuple(entry for line in lines for entry in line.entries)
    return Facts(tables[0].protocol, tuple(blocks.values()), entries, frozenset(line.label for line in lines))


def _span(values: Iterable[float]) -> Span | None:
    found = [float(value) for value in values]
    return (min(found), max(found)) if found else None
