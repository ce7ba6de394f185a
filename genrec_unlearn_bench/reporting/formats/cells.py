"""Cells of a text table, part by part; each format puts the parts together in its own way.

So markdown and the terminal cannot differ in what they show, only in how.
"""

from __future__ import annotations

from dataclasses import dataclass

from genrec_unlearn_bench.reporting.analysis import Mark, Verdict
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Equivalent
from genrec_unlearn_bench.reporting.tables import Column, Entry, Line
from genrec_unlearn_bench.reporting.wording import fixed

__all__ = ["DIVERGED", "SIGNS", "Shown", "column_title", "line_label", "mean_text", "show"]

SIGNS = {
    Verdict.BETTER: "▲",
    Verdict.WORSE: "▼",
    Verdict.NOT_SEPARABLE: "",
    Verdict.UNDERPOWERED: "?",
}
"""Against the baseline."""
EQUIVALENCE = {
    Equivalent.EQUIVALENT: "≈",
    Equivalent.IDENTICAL: "=",
    Equivalent.DIFFERENT: "≠",
    Equivalent.NOT_SHOWN: "",
    Equivalent.UNDERPOWERED: "",
}
"""To the oracle."""
DIVERGED = "‡"
UNITS = {"seconds": "(s)", "MiB": "(MiB)"}
"""Of what is neither a share nor a count."""


@dataclass(frozen=True)
class Shown:
    """The parts of one cell; empty where there is nothing to say.

    Attributes:
        number: The mean, or why there is none: – (not run, or not recorded), n/a (not measured), diverged.
        spread: Standard deviation over the seeds, or the number of seeds where there is only one.
        sign: Against the baseline.
        oracle: Equivalence to the oracle.
        rank: Interval of ranks and letters, for primary measures.
    """

    number: str
    spread: str = ""
    sign: str = ""
    oracle: str = ""
    rank: str = ""
    mark: Mark = Mark.PLAIN

    @property
    def tail(self) -> str:
        """All but the number, with single spaces."""
        return " ".join(part for part in (self.spread, self.sign + self.oracle, self.rank) if part)


def show(entry: Entry) -> Shown:
    """The parts of a cell."""
    cell, column = entry.cell, entry.column
    if cell is None or entry.row is None:
        return Shown("–")
    if entry.row.diverged:
        # The runs that are left would flatter it.
        return Shown("diverged", f"{len(entry.row.diverged)} of {len(entry.row.results)}")
    if cell.mean is None:
        return Shown("–" if column.measure in RECORDED_COSTS else "n/a")
    difference, equivalence = cell.difference, cell.equivalence
    rank = ""
    if column.primary and cell.rank is not None:
        first, last = cell.rank
        rank = f"({first if first == last else f'{first}–{last}'}{f', {cell.letters}' if cell.letters else ''})"
    spread = f"± {fixed(cell.sd, column.decimals)}" if cell.sd is not None else f"n={cell.n}"
    return Shown(
        number=fixed(cell.mean, column.decimals),
        spread=spread,
        sign=SIGNS[difference.verdict] if difference is not None else "",
        oracle=EQUIVALENCE[equivalence.verdict] if equivalence is not None else "",
        rank=rank,
        mark=cell.mark,
    )


def column_title(column: Column) -> str:
    """Metric, unit and direction; without what the column's head says already."""
    title = column.title if column.title != column.head else ""
    unit = UNITS.get(column.measure.spec.unit, "")
    return " ".join(part for part in (title, unit, column.measure.arrow) if part)


def line_label(line: Line) -> str:
    """The row's name, not escaped; rows with a diverged run carry a dagger."""
    return f"{line.label} {DIVERGED}" if line.diverged else line.label


def mean_text(value: float | None, sd: float | None, decimals: int) -> str:
    """A mean with its spread, as reported numbers are shown."""
    if value is None:
        return "–"
    return fixed(value, decimals) + (f" ± {fixed(sd, decimals)}" if sd is not None else "")
