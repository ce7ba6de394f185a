"""The numbers of the TRACER paper beside ours, with the cells that contradict each other.

They were measured on another preparation of the data, with other splits and other code, so they are context and never a
target. Most of their rows break a bound that every correct evaluation keeps, which a reader has to see at the number.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from genrec_unlearn_bench.evaluation.invariants import check_bounds
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.tables import Table, decimals
from genrec_unlearn_bench.reporting.wording import fixed, leaderboard_text

TOLERANCE = 0.0011
"""Published numbers have three places: each is off by .0005 at most, and a bound adds two of them."""
BEAM = 10
"""Of the paper."""
NOTES = (
    "Reported: the TRACER paper's tables, measured on another preparation of the data with other code; they "
    "are context and never a target.",
    "151 of 160 reported rows break at least one bound between metrics of the same lists (147 without the bounds on "
    "MRR, whose cut-off the paper does not name); cells in such a bound are marked !. Tolerance for three places: "
    ".0011.",
    "The paper's main and complete tables disagree in 1 cell (sports-brand, minionerec, tracer, retain NDCG@5: "
    "0.066 and 0.065); the complete one's number is shown.",
    "Its main table has MOR and LETTER alone, at HR@5 and NDCG@5, with spreads over five runs; its times are "
    "minutes on four A100 (here in seconds). Its Sim. names neither the group nor the item; it stands beside "
    "that of the first item on retain users.",
)
"""To print wherever these numbers are shown."""


class ReportedCell(NamedTuple):
    """One published number; ``broken``: the bounds that its row breaks and that it takes part in, as sentences."""

    task: str
    backbone: str
    method: str
    measure: Measure
    value: float
    sd: float | None
    broken: tuple[str, ...] = ()


@cache
def reported() -> tuple[ReportedCell, ...]:
    """The published numbers."""
    cells = [
        ReportedCell(
            *(line["task"], line["backbone"], line["method"], Measure.parse(line["measure"], beam=BEAM)),
            *(float(line["value"]), float(line["sd"]) if line["sd"] else None),
        )
        for line in csv.DictReader(leaderboard_text("published", "tracer.csv").splitlines())
    ]
    lists: dict[tuple[str, str, str, Group], dict[str, float]] = {}
    for cell in cells:
        lists.setdefault((*cell[:3], cell.measure.group), {})[cell.measure.metric] = cell.value
    broken = {place: check_bounds(numbers, tolerance=TOLERANCE) for place, numbers in lists.items()}

    def with_bounds(cell: ReportedCell) -> ReportedCell:
        # A sentence ends with the metrics of its bound in brackets.
        found = broken[*cell[:3], cell.measure.group]
        own = (each for each in found if f"{cell.measure.metric} " in each.rpartition("(")[2])
        return cell._replace(broken=tuple(own))

    return tuple(map(with_bounds, cells))


@dataclass(frozen=True)
class ReportedComparison:
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
    def texts(self) -> tuple[str, str, str, str]:
        """Method, measure, the reported number with its spread, ``!`` where its row contradicts it, and ours."""
        reported = _mean(self.reported, self.reported_sd, min(3, self.decimals)) + " !" * bool(self.broken)
        return self.method, self.title, reported, _mean(self.ours, self.ours_sd, self.decimals)


def reported_comparisons(tables: Sequence[Table]) -> tuple[ReportedComparison, ...]:
    """Every reported number of a task and backbone in the tables whose measure is a column there.

    Ours is the row whose label is the method's name; other configurations of a method have other labels. What is
    reported was measured after one request.
    """
    out = []
    for table in tables:
        shown = {column.measure for column in table.columns}
        for block in table.blocks:
            key = block.block.key
            for cell in reported():
                if (cell.task, cell.backbone) != (key.task, key.backbone) or cell.measure not in shown or key.regime:
                    continue
                ours = block.cells.get((cell.method, cell.measure))
                own = (*((ours.mean, ours.sd, ours.n) if ours else (None, None, 0)), decimals(cell.measure.spec))
                names = (key.title, cell.task, cell.backbone, cell.method, cell.measure.text, cell.measure.title)
                out.append(ReportedComparison(*names, cell.value, cell.sd, cell.broken, *own))
    return tuple(out)


def reported_notes(found: Sequence[ReportedComparison]) -> tuple[str, ...]:
    """Notes below the numbers; where there are none, that there is nothing to show."""
    if not found:
        return ("The paper reports nothing for these tasks, backbones and measures.", *NOTES)
    broken = sum(bool(pair.broken) for pair in found)
    return (f"{broken} of the {len(found)} reported cells shown here are in a broken bound (!).", *NOTES)


def _mean(value: float | None, sd: float | None, decimals: int) -> str:
    if value is None:
        return "–"
    return fixed(value, decimals) + (f" ± {fixed(sd, decimals)}" if sd is not None else "")
