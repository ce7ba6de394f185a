"""The numbers of the TRACER paper, beside which ours can be printed, with the cells that contradict each other.

They were measured on another preparation of the data, with other splits and other code, so they are context and never a
target. Most of their rows break a bound that every correct evaluation keeps, which a reader has to see at the number.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from genrec_unlearn_bench.evaluation.invariants import check_bounds
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.tables import Table, decimals
from genrec_unlearn_bench.reporting.wording import fixed

TOLERANCE = 0.0011
"""Published numbers have three places: each is off by .0005 at most, and a bound adds two of them."""
BEAM = 10
"""Of the paper."""


@dataclass(frozen=True)
class ReportedCell:
    """One published number; ``broken``: the bounds that its row breaks and that it takes part in, as sentences."""

    task: str
    backbone: str
    method: str
    measure: Measure
    value: float
    sd: float | None
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reported:
    """All published numbers.

    Attributes:
        rows: Rows of the complete tables: dataset × concept × backbone × method.
        broken_rows: Those of them that break at least one bound.
        broken_without_mrr: Those that break a bound without MRR, whose cut-off the paper does not name.
    """

    cells: tuple[ReportedCell, ...]
    rows: int
    broken_rows: int
    broken_without_mrr: int

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to print wherever these numbers are shown."""
        return (
            "Reported: the TRACER paper's tables, measured on another preparation of the data with other code; they "
            "are context and never a target.",
            f"{self.broken_rows} of {self.rows} reported rows break at least one bound between metrics of the same "
            f"lists ({self.broken_without_mrr} without the bounds on MRR, whose cut-off the paper does not name); "
            "cells in such a bound are marked !. Tolerance for three places: .0011.",
            "The paper's main and complete tables disagree in 1 cell (sports-brand, minionerec, tracer, retain NDCG@5: "
            "0.066 and 0.065); the complete one's number is shown.",
            "Its main table has MOR and LETTER alone, at HR@5 and NDCG@5, with spreads over five runs; its times are "
            "minutes on four A100 (here in seconds). Its Sim. names neither the group nor the item; it stands beside "
            "that of the first item on retain users.",
        )


@cache
def reported() -> Reported:
    """The published numbers with their counts."""
    file = resources.files("genrec_unlearn_bench.leaderboard") / "published" / "tracer.csv"
    cells: list[ReportedCell] = []
    numbers: dict[tuple[str, str, str], dict[Group, dict[str, float]]] = {}
    for line in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
        row, measure = (line["task"], line["backbone"], line["method"]), Measure.parse(line["measure"], beam=BEAM)
        value, sd = float(line["value"]), float(line["sd"]) if line["sd"] else None
        cells.append(ReportedCell(*row, measure, value, sd))
        numbers.setdefault(row, {}).setdefault(measure.group, {})[measure.metric] = value
    broken = {
        row: {group: check_bounds(found, tolerance=TOLERANCE) for group, found in by_group.items()}
        for row, by_group in numbers.items()
    }
    sentences = [[each for found in by_group.values() for each in found] for by_group in broken.values()]

    def bounds_of(cell: ReportedCell) -> tuple[str, ...]:
        found = broken[cell.task, cell.backbone, cell.method][cell.measure.group]
        return tuple(each for each in found if f"{cell.measure.metric} " in _terms(each))

    return Reported(
        cells=tuple(replace(cell, broken=bounds_of(cell)) for cell in cells),
        rows=len(numbers),
        broken_rows=sum(bool(row) for row in sentences),
        broken_without_mrr=sum(any("mrr" not in _terms(each) for each in row) for row in sentences),
    )


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
        reported = f"{_mean(self.reported, self.reported_sd, min(3, self.decimals))} {self.mark}"
        return self.method, self.title, reported.rstrip(), _mean(self.ours, self.ours_sd, self.decimals)


def beside(tables: Sequence[Table]) -> tuple[Beside, ...]:
    """Every reported number of a task and backbone in the tables whose measure is a column there.

    Ours is the row whose label is the method's name; other configurations of a method have other labels. What is
    reported was measured after one request.
    """
    out = []
    for table in tables:
        shown = {column.measure for column in table.columns}
        for block in table.blocks:
            key = block.block.key
            for cell in reported().cells:
                if (cell.task, cell.backbone) != (key.task, key.backbone) or cell.measure not in shown or key.regime:
                    continue
                ours = block.cells.get((cell.method, cell.measure))
                out.append(
                    Beside(
                        **{name: getattr(cell, name) for name in ("task", "backbone", "method", "broken")},
                        block=key.title,
                        measure=cell.measure.text,
                        title=cell.measure.title,
                        reported=cell.value,
                        reported_sd=cell.sd,
                        ours=ours.mean if ours else None,
                        ours_sd=ours.sd if ours else None,
                        n=ours.n if ours else 0,
                        decimals=decimals(cell.measure.spec),
                    )
                )
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
