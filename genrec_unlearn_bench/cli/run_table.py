"""The table at the end of ``bench run``: reference rows and methods, forget side, retain side, tokens, cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.metric import Group

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from genrec_unlearn_bench.pipeline.record import RunRecord

__all__ = ["COLUMNS", "Column", "number", "run_table"]


@dataclass(frozen=True)
class Column:
    """One metric of the table."""

    head: str
    title: str
    metric: str
    group: Group
    signed: bool = False
    lists: bool = True
    """Whether the metric has a value for each beam."""


COLUMNS = (
    Column("forget", "HR@10", "hr@10", Group.FORGET),
    Column("", "NDCG@10", "ndcg@10", Group.FORGET),
    Column("", "CR@10", "concept-rate@10", Group.FORGET),
    Column("", "Sim.", "similarity.first", Group.FORGET),
    Column("retain", "HR@10", "hr@10", Group.RETAIN),
    Column("", "NDCG@10", "ndcg@10", Group.RETAIN),
    Column("", "CR@10", "concept-rate@10", Group.RETAIN),
    Column("", "Sim.", "similarity.first", Group.RETAIN),
    Column("tokens", "Ω", "overlap.mean", Group.ALL, lists=False),
    Column("gap", "Δf HR", "gap.hr@10", Group.FORGET, signed=True),
    Column("", "Δr HR", "gap.hr@10", Group.RETAIN, signed=True),
)


CAPTION = (
    "forget: the target is the row retrain, not 0 · retain: higher is better · CR: share of concept items in the list\n"
    "Sim.: cosine of the first item's text and the target's · Ω: token overlap of concept and retain items\n"
    "Δf, Δr: HR@10 on the forget and retain side minus retrain's · seconds: unlearning alone"
)


def run_table(records: Sequence[RunRecord], *, beam: int) -> RenderableType:
    """A row for every record; with several seeds, each method's mean over them below its rows.

    Several backbones stand one below the other, each under its name.
    """
    from rich import box
    from rich.console import Group as Pile
    from rich.table import Table
    from rich.text import Text

    first = records[0]
    names = list(dict.fromkeys(_backbone(record) for record in records))
    table = Table(
        title=" · ".join(
            (
                first.cell.task,
                *([] if len(names) > 1 else names),
                first.cell.scale,
                f"beam {beam}",
                *_rulesets(records),
                *_requests(records),
            )
        ),
        box=box.SIMPLE_HEAD,
        # A blank on one side only: eleven numbers and a long name have to fit into 120 columns.
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    seeds = list(dict.fromkeys(record.cell.seed for record in records))
    table.add_column("\nmethod", no_wrap=True)
    if len(seeds) > 1:
        table.add_column("\nseed", justify="right")
    for column in COLUMNS:
        table.add_column(f"{column.head}\n{column.title}", justify="right", no_wrap=True)
    table.add_column("time\nseconds", justify="right", no_wrap=True)
    for backbone in names:
        if len(names) > 1:
            table.add_row(backbone, style="bold")
        _add_methods(table, [record for record in records if _backbone(record) == backbone], beam, len(seeds) > 1)
        table.add_section()
    # Below the table and not its caption, which rich would wrap at the table's width.
    return Pile(table, Text(CAPTION, style="dim"))


def _rulesets(records: Sequence[RunRecord]) -> list[str]:
    """The ruleset where it is not the default; reference rows have none of their own."""
    found = dict.fromkeys(record.cell.ruleset for record in records if record.cell.ruleset != "default")
    return [f"ruleset {name}" for name in found]


def _requests(records: Sequence[RunRecord]) -> list[str]:
    """How many requests the forget set was asked in, where there were several."""
    return [f"{count} requests" for count in dict.fromkeys(record.cell.requests for record in records) if count > 1]


def _backbone(record: RunRecord) -> str:
    return record.backbone_label or record.cell.backbone


def _add_methods(table: Table, records: Sequence[RunRecord], beam: int, seeded: bool) -> None:
    for name in dict.fromkeys(record.cell.method for record in records):
        rows = [record for record in records if record.cell.method == name]
        for record in rows:
            _add(table, record, beam, seeded=seeded)
        if len(rows) > 1:
            means = [_mean([_value(record, column, beam) for record in rows]) for column in COLUMNS]
            seconds = _mean([record.cost.unlearn_seconds for record in rows])
            cells = [number(value, signed=column.signed) for value, column in zip(means, COLUMNS, strict=True)]
            table.add_row(f"{name}", "mean", *cells, _seconds(seconds), style="bold", end_section=True)


def number(value: float | None, *, signed: bool = False) -> str:
    """Four places, without the leading zero; a dash where nothing was measured."""
    if value is None:
        return "–"
    text = f"{value:+.4f}" if signed else f"{value:.4f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def _add(table: Table, record: RunRecord, beam: int, *, seeded: bool) -> None:
    name = f"{record.cell.method} (diverged)" if record.diverged else record.cell.method
    cells = [number(_value(record, column, beam), signed=column.signed) for column in COLUMNS]
    seed = [str(record.cell.seed)] if seeded else []
    table.add_row(name, *seed, *cells, _seconds(record.cost.unlearn_seconds))


def _value(record: RunRecord, column: Column, beam: int) -> float | None:
    wanted = beam if column.lists else None
    for value in record.metrics:
        if (value.metric, value.group, value.beam) == (column.metric, column.group, wanted):
            return value.value
    return None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return "0" if value == 0 else f"{value:.1f}"
