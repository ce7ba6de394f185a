"""The numbers of the TRACER paper, beside which ours can be printed, with the cells that contradict each other.

They were measured on another preparation of the data, with other splits and other code, so they are context and never a
target: nothing is tuned to them. Most of their rows break a bound that every correct evaluation keeps, which a reader
has to see at the number.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from genrec_unlearn_bench.evaluation.invariants import check_bounds
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.analysis import Cell
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.tables import Table, decimals
from genrec_unlearn_bench.reporting.wording import counted, fixed

TOLERANCE = 0.0011
"""Published numbers have three places: each is off by .0005 at most, and a bound adds two of them."""
BEAM = 10
"""Of the paper."""

_TASKS = {
    ("Industrial and Scientific", "brand"): "industrial-brand",
    ("Industrial and Scientific", "item"): "industrial-item",
    ("Sports and Outdoors", "brand"): "sports-brand",
    ("Toys and Games", "brand"): "toys-brand",
}
_BACKBONES = {"MOR": "minionerec", "LETTER": "letter", "TIGER": "tiger", "P5SID": "p5sid", "ETEGRec": "etegrec"}
_METRICS = {
    "hr@5": "hr@5",
    "hr@10": "hr@10",
    "ndcg@5": "ndcg@5",
    "ndcg@10": "ndcg@10",
    # The paper names no cut-off; over lists of ten it can only be this one.
    "mrr": "mrr@10",
}
_COLUMNS = {
    f"{group.value}_{name}": Measure(metric, group, BEAM)
    for group in (Group.FORGET, Group.RETAIN)
    for name, metric in _METRICS.items()
} | {"similarity": Measure("similarity.first", Group.RETAIN, BEAM)}
_SECONDS = Measure("cost.unlearn-seconds", Group.ALL)


@dataclass(frozen=True)
class ReportedCell:
    """One published number.

    Attributes:
        task, backbone, method: As the suite calls them.
        sd: Over five runs; only the main table and the times give one.
        broken: The bounds that its row breaks and that it takes part in, as sentences.
    """

    task: str
    backbone: str
    method: str
    measure: Measure
    value: float
    sd: float | None = None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reported:
    """All published numbers.

    Attributes:
        rows: Rows of the complete tables: dataset × concept × backbone × method.
        broken_rows: Those of them that break at least one bound.
        broken_without_mrr: Those that break a bound without MRR, whose cut-off the paper does not name.
        disagreements: Cells that the paper's main table gives another number for than its complete table, in words.
    """

    cells: tuple[ReportedCell, ...]
    rows: int
    broken_rows: int
    broken_without_mrr: int
    disagreements: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to print wherever these numbers are shown."""
        return (
            "Reported: the TRACER paper's tables, measured on another preparation of the data with other code; they "
            "are context and never a target.",
            f"{self.broken_rows} of {self.rows} reported rows break at least one bound between metrics of the same "
            f"lists ({self.broken_without_mrr} without the bounds on MRR, whose cut-off the paper does not name); "
            "cells in such a bound are marked !. Tolerance for three places: .0011.",
            f"The paper's main and complete tables disagree in {counted(len(self.disagreements), 'cell')} "
            f"({'; '.join(self.disagreements)}); the complete one's number is shown.",
            "Its main table has MOR and LETTER alone, at HR@5 and NDCG@5, with spreads over five runs; its times are "
            "minutes on four A100 (here in seconds). Its Sim. names neither the group nor the item; it stands beside "
            "that of the first item on retain users.",
        )


@cache
def reported() -> Reported:
    """The published numbers with their counts."""
    # The main table is of brands.
    main = {(row["dataset"], "brand", row["backbone"], row["method"]): row for row in _rows("main")}
    cells: list[ReportedCell] = []
    disagreements: list[str] = []
    rows = _rows("full")
    broken_rows = without_mrr = 0
    for row in rows:
        broken = {group: _broken(row, group.value) for group in (Group.FORGET, Group.RETAIN)}
        sentences = [sentence for found in broken.values() for sentence in found]
        broken_rows += bool(sentences)
        without_mrr += any("mrr" not in _terms(sentence) for sentence in sentences)
        other = main.get((row["dataset"], row["concept"], row["backbone"], row["method"]), {})
        for column, measure in _COLUMNS.items():
            parts = tuple(each for each in broken[measure.group] if f"{measure.metric} " in _terms(each))
            cell = _cell(row, measure, float(row[column]), broken=parts)
            if other.get(column) and float(other[column]) == cell.value:
                cell = replace(cell, sd=float(other[f"{column}_sd"]))
            elif other.get(column):
                names = f"{cell.task}, {cell.backbone}, {cell.method}, {measure.title}"
                disagreements.append(f"{names}: {float(other[column])} and {cell.value}")
            cells.append(cell)
    for row in _rows("minutes"):
        seconds = _cell({**row, "concept": "brand"}, _SECONDS, 60.0 * float(row["minutes"]))
        cells.append(replace(seconds, sd=60.0 * float(row["minutes_sd"])))
    return Reported(tuple(cells), len(rows), broken_rows, without_mrr, tuple(disagreements))


def _rows(name: str) -> list[dict[str, str]]:
    file = resources.files("genrec_unlearn_bench.leaderboard") / f"published/tracer-{name}.csv"
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def _cell(row: Mapping[str, str], measure: Measure, value: float, broken: tuple[str, ...] = ()) -> ReportedCell:
    task = _TASKS[row["dataset"], row["concept"]]
    return ReportedCell(task, _BACKBONES[row["backbone"]], row["method"].lower(), measure, value, broken=broken)


def _broken(row: Mapping[str, str], group: str) -> list[str]:
    numbers = {metric: float(row[f"{group}_{name}"]) for name, metric in _METRICS.items()}
    return check_bounds(numbers, tolerance=TOLERANCE)


def _terms(sentence: str) -> str:
    """The part of a broken bound's sentence that names its metrics and their numbers."""
    return sentence.rpartition("(")[2]


@dataclass(frozen=True)
class Beside:
    """One reported number and ours, where there is one.

    Attributes:
        block: Title of our block: task, backbone, scale and ruleset.
        ours: None where the method was not run there.
        broken: The bounds that the reported number's row breaks with it, as sentences.
    """

    block: str
    task: str
    backbone: str
    method: str
    measure: str
    title: str
    reported: float
    reported_sd: float | None
    broken: tuple[str, ...]
    ours: float | None
    ours_sd: float | None
    n: int
    decimals: int

    @property
    def mark(self) -> str:
        """``!`` where the reported number contradicts others of its row."""
        return "!" if self.broken else ""

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """Method, measure, the reported number with its spread and mark, and ours."""
        reported = _mean(self.reported, self.reported_sd, min(3, self.decimals)) + f" {self.mark}"
        return self.method, self.title, reported.rstrip(), _mean(self.ours, self.ours_sd, self.decimals)


def beside(tables: Sequence[Table]) -> tuple[Beside, ...]:
    """Every reported number of a task and backbone in the tables whose measure is a column there.

    Ours is the row whose label is the method's name; rows of other configurations are told apart by their label and
    stand in the table alone.
    """
    out: list[Beside] = []
    for table in tables:
        shown = {column.measure for column in table.columns}
        for block in table.blocks:
            key = block.block.key
            out += [
                _pair(cell, block.cells.get((cell.method, cell.measure)), key.title)
                for cell in reported().cells
                # What is reported was measured after one request.
                if (cell.task, cell.backbone) == (key.task, key.backbone) and cell.measure in shown and not key.regime
            ]
    return tuple(out)


def beside_notes(found: Sequence[Beside]) -> tuple[str, ...]:
    """Notes below the numbers; where there are none, that there is nothing to show."""
    if not found:
        return ("The paper reports nothing for these tasks, backbones and measures.", *reported().notes)
    broken = sum(bool(pair.broken) for pair in found)
    return (f"{broken} of the {len(found)} reported cells shown here are in a broken bound (!).", *reported().notes)


def _mean(value: float | None, sd: float | None, decimals: int) -> str:
    if value is None:
        return "–"
    return fixed(value, decimals) + (f" ± {fixed(sd, decimals)}" if sd is not None else "")


def _pair(cell: ReportedCell, ours: Cell | None, block: str) -> Beside:
    return Beside(
        block=block,
        task=cell.task,
        backbone=cell.backbone,
        method=cell.method,
        measure=cell.measure.text,
        title=cell.measure.title,
        reported=cell.value,
        reported_sd=cell.sd,
        broken=cell.broken,
        ours=ours.mean if ours is not None else None,
        ours_sd=ours.sd if ours is not None else None,
        n=ours.n if ours is not None else 0,
        decimals=decimals(cell.measure.spec),
    )
