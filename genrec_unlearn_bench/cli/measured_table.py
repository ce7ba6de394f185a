"""The table of ``bench run --suite full`` below the core's: one row a result, what was measured beyond the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.cli.run_table import Column, number
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue

if TYPE_CHECKING:
    from rich.console import RenderableType

    from genrec_unlearn_bench.pipeline.record import RunRecord

__all__ = ["COLUMNS", "measured_table"]

COLUMNS = (
    Column("probing", "pooled", "probing.auroc.pooled", Group.ALL, lists=False),
    Column("", "history", "probing.auroc.history", Group.ALL, lists=False),
    Column("membership", "AUC", "membership.auc.loss", Group.FORGET, lists=False),
    Column("", "TPR", "membership.tpr.loss", Group.FORGET, lists=False),
    Column("quality", "KS p", "forget-quality.ks.p", Group.FORGET, lists=False),
    Column("", "ToW", "forget-quality.tow", Group.ALL, lists=False),
    Column("4 bit", "R", "quantisation.recovery.int4", Group.FORGET, lists=False),
    Column("", "damage", "quantisation.damage.int4", Group.RETAIN, signed=True, lists=False),
    Column("relearning", "area", "relearning.area.mixed", Group.FORGET, lists=False),
    Column("", "R", "relearning.recovery.mixed", Group.FORGET, signed=True, lists=False),
    Column("old SIDs", "R", "relearning.original-sids.recovery.mixed", Group.FORGET, signed=True, lists=False),
)
"""Headlines; all numbers are in the records (``bench leaderboard --layout attack``)."""

CAPTION = (
    "probing: AUROC of a linear probe for the concept, on mean-pooled states and at concept positions of histories\n"
    "AUC, TPR at 1 % FPR: who was in the forget set, by loss · KS p: truth ratio against retrain's\n"
    "R: what comes back, 0 as in retrain, 1 as in the original"
)


def measured_table(records: Sequence[RunRecord]) -> RenderableType | None:
    """A row for every record that has measurements beyond the core; None where no record has.

    Below it stands, once each, why something could not be measured.
    """
    from rich import box
    from rich.console import Group as Pile
    from rich.table import Table
    from rich.text import Text

    rows = [record for record in records if record.measuring]
    if not rows:
        return None
    found = [[_value(record, column) for column in COLUMNS] for record in rows]
    kept = [index for index in range(len(COLUMNS)) if any(line[index] is not None for line in found)]
    table = Table(
        title="beyond the core", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, title_justify="left"
    )
    seeded, several = len({row.cell.seed for row in rows}) > 1, len({row.cell.backbone for row in rows}) > 1
    heads = [*(["backbone"] if several else []), "method", *(["seed"] if seeded else [])]
    for head in heads:
        table.add_column(f"\n{head}", no_wrap=True)
    above = ""
    for index in kept:
        column = COLUMNS[index]
        family = column.metric.partition(".")[0]
        # A family's head stands over its first column that is shown.
        head = column.head or (_head(index) if family != above else "")
        above = family
        table.add_column(f"{head}\n{column.title}", justify="right", no_wrap=True)
    for record, line in zip(rows, found, strict=True):
        names = [*([record.backbone_label or record.cell.backbone] if several else []), record.cell.method]
        names += [str(record.cell.seed)] if seeded else []
        cells = []
        for index in kept:
            value = line[index]
            cells.append(number(value.value if value else None, signed=COLUMNS[index].signed))
        table.add_row(*names, *cells)
    reasons = _reasons(rows, found)
    below = [Text(CAPTION, style="dim")]
    below += [Text("not measured:\n" + "\n".join(f"  {text}" for text in reasons))] if reasons else []
    return Pile(table, *below)


def _head(index: int) -> str:
    return next(column.head for column in reversed(COLUMNS[: index + 1]) if column.head)


def _value(record: RunRecord, column: Column) -> MetricValue | None:
    for value in record.metrics:
        if (value.metric, value.group) == (column.metric, column.group):
            return value
    return None


def _reasons(rows: Sequence[RunRecord], found: Sequence[Sequence[MetricValue | None]]) -> list[str]:
    """``metric: reason (rows)``, one line for each reason."""
    said: dict[tuple[str, str], list[str]] = {}
    for record, line in zip(rows, found, strict=True):
        for value in line:
            if value is not None and value.value is None:
                key = (value.metric.partition(".")[0], value.note or "no reason given")
                said.setdefault(key, []).append(record.cell.method)
    return [f"{family}: {note} ({', '.join(dict.fromkeys(names))})" for (family, note), names in said.items()]
