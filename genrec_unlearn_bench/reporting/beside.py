"""Reported numbers beside ours: the same task, backbone, method and measure, wherever a table has such a column.

Only what the tables show is paired, so that a reader finds every number of ours in the table above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.reporting.analysis import Cell
from genrec_unlearn_bench.reporting.reported import ReportedCell, reported
from genrec_unlearn_bench.reporting.tables import Table, decimals

__all__ = ["Beside", "beside", "beside_notes"]


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


def beside(tables: Sequence[Table]) -> tuple[Beside, ...]:
    """Every reported number of a task and backbone in the tables whose measure is a column there.

    Ours is the row whose label is the method's name; rows of other configurations are told apart by their label and
    stand in the table alone.
    """
    known: dict[tuple[str, str], list[ReportedCell]] = {}
    for cell in reported().cells:
        known.setdefault((cell.task, cell.backbone), []).append(cell)
    out: list[Beside] = []
    for table in tables:
        shown = {column.measure for column in table.columns}
        for block in table.blocks:
            key = block.block.key
            if key.regime:
                # What is reported was measured after one request.
                continue
            for cell in known.get((key.task, key.backbone), ()):
                if cell.measure in shown:
                    out.append(_pair(cell, block.cells.get((cell.method, cell.measure)), key.title))
    return tuple(out)


def beside_notes(found: Sequence[Beside]) -> tuple[str, ...]:
    """What has to be said below; that there is nothing to show, where there is not."""
    if not found:
        return ("The paper reports nothing for these tasks, backbones and measures.", *reported().notes)
    broken = sum(bool(pair.broken) for pair in found)
    return (f"{broken} of the {len(found)} reported cells shown here are in a broken bound (!).", *reported().notes)


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
