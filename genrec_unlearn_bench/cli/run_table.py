"""Tables of ``bench run``: core metrics of every row; the full suite's headlines; one row a request of a stream."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.reporting.formats.grid import GridRow, WideGrid
from genrec_unlearn_bench.reporting.wording import bare

if TYPE_CHECKING:
    from rich.console import RenderableType

    from genrec_unlearn_bench.pipeline.record import RunRecord


@dataclass(frozen=True)
class Column:
    """One metric of a table; columns with the same ``head`` stay together where a table is cut."""

    head: str
    title: str
    metric: str
    group: Group
    signed: bool = False
    lists: bool = True
    """Whether the metric has a value for each beam."""


COLUMNS = (
    Column("forget", "HR@10", "hr@10", Group.FORGET),
    Column("forget", "exposed", "exposed.hr@10", Group.FORGET),
    Column("forget", "worst", "worst-case.hr@10", Group.FORGET),
    Column("forget", "CR@10", "concept-rate@10", Group.FORGET),
    Column("retain", "HR@10", "hr@10", Group.RETAIN),
    Column("retain", "NDCG@10", "ndcg@10", Group.RETAIN),
    Column("retain", "Sim.", "similarity.first.scrubbed", Group.RETAIN),
    Column("near", "NDCG@10", "ndcg@10", Group.NEAR),
    Column("tokens", "Ω", "overlap.mean", Group.ALL, lists=False),
    Column("gap", "Δf HR", "gap.worst-case.hr@10", Group.FORGET, signed=True),
    Column("gap", "Δr HR", "gap.hr@10", Group.RETAIN, signed=True),
)

CAPTION = (
    "forget: the target is the row retrain, not 0 · CR: share of concept items in the list\n"
    "exposed: HR@10 of the weights without serving rules, in the original IDs · worst: the higher of the two\n"
    "retain: higher is better · near: retained users whose target is a neighbour of the concept\n"
    "Sim.: cosine of the first item's text and the target's, without the concept · Ω: token overlap\n"
    "Δf, Δr: worst forget HR@10 and retain HR@10 minus retrain's · seconds: unlearning alone"
)

FULL_COLUMNS = (
    Column("probing", "pooled", "probing.auroc.pooled", Group.ALL, lists=False),
    Column("probing", "history", "probing.auroc.history", Group.ALL, lists=False),
    Column("membership", "AUC", "membership.auc.loss", Group.FORGET, lists=False),
    Column("membership", "TPR", "membership.tpr.loss", Group.FORGET, lists=False),
    Column("quality", "KS p", "forget-quality.ks.p", Group.FORGET, lists=False),
    Column("quality", "ToW", "forget-quality.tow", Group.ALL, lists=False),
    Column("4 bit", "R", "quantisation.recovery.int4", Group.FORGET, lists=False),
    Column("4 bit", "damage", "quantisation.damage.int4", Group.RETAIN, signed=True, lists=False),
    Column("relearning", "area", "relearning.area.mixed", Group.FORGET, lists=False),
    Column("relearning", "R", "relearning.recovery.mixed", Group.FORGET, signed=True, lists=False),
    Column("old SIDs", "R", "relearning.original-sids.recovery.mixed", Group.FORGET, signed=True, lists=False),
)
"""Headlines of the full suite; all numbers are in the records (``bench leaderboard --layout attack``)."""

FULL_CAPTION = (
    "probing: AUROC of a linear probe for the concept, on mean-pooled states and at concept positions of histories\n"
    "AUC, TPR at 1 % FPR: who was in the forget set, by loss · KS p: truth ratio against retrain's\n"
    "R: what comes back, 0 as in retrain, 1 as in the original"
)

STREAM_COLUMNS = (
    ("request", "interact.", "interactions"),
    ("forget", "HR@10", "forget_hr@10"),
    ("forget", "exposed", "exposed_forget_hr@10"),
    ("so far", "HR@10", "so_far_hr@10"),
    ("so far", "exposed", "exposed_so_far_hr@10"),
    ("earlier", "HR@10", "earlier_hr@10"),
    ("earlier", "exposed", "exposed_earlier_hr@10"),
    ("retain", "NDCG@10", "retain_ndcg@10"),
    ("time", "seconds", "seconds"),
    ("time", "/ retrain", "share_of_retraining"),
)

STREAM_CAPTION = (
    "right after each request, at beam 10 · interact.: train interactions it asked to forget\n"
    "exposed: HR@10 of the weights without serving rules, in the original IDs\n"
    "forget: its own test interactions · so far: all requests up to it · earlier: those before (rising: back again)\n"
    "retain: never requested in the stream · time: of the request, and of all so far over one retraining's"
)


def run_table(records: Sequence[RunRecord], *, beam: int) -> RenderableType:
    """Core table: a row for every record; with several seeds, each method's mean below its rows.

    Several backbones are shown one below the other, each under its name.
    """
    first = records[0].cell
    names = list(dict.fromkeys(map(_backbone, records)))
    rulesets = dict.fromkeys(record.cell.ruleset for record in records if record.cell.ruleset != "default")
    counts = dict.fromkeys(record.cell.requests for record in records if record.cell.requests > 1)
    title = [first.task, *([] if len(names) > 1 else names), first.scale, f"beam {beam}"]
    title += [*(f"ruleset {name}" for name in rulesets), *(f"{count} requests" for count in counts)]
    seeded = len({record.cell.seed for record in records}) > 1
    rows = []
    for backbone in names:
        if len(names) > 1:
            rows.append(GridRow((backbone,), (), style="bold", section=True))
        rows += _method_rows([record for record in records if _backbone(record) == backbone], beam, seeded=seeded)
    heads = [*((column.head, column.title) for column in COLUMNS), ("time", "seconds")]
    return _captioned(title, WideGrid(("method", *(["seed"] if seeded else [])), heads, rows), CAPTION)


def full_table(records: Sequence[RunRecord]) -> RenderableType | None:
    """Measurements beyond the core: a row for every record that has some; None where no record has.

    Below it, once each, the reasons why something could not be measured.
    """
    rows = [record for record in records if record.measuring]
    if not rows:
        return None
    shown = [column for column in FULL_COLUMNS if any(_find(record, column) for record in rows)]
    found = [[_find(record, column) for column in shown] for record in rows]
    seeded, several = len({row.cell.seed for row in rows}) > 1, len({row.cell.backbone for row in rows}) > 1
    lines = []
    for record, line in zip(rows, found, strict=True):
        names = [record.cell.method, *([_backbone(record)] if several else []), *([str(record.cell.seed)] * seeded)]
        values = [one.value if one else None for one in line]
        lines.append(GridRow(names, [*map(_number, values, shown)]))
    heads = [(column.head, column.title) for column in shown]
    names = ["method", *(["backbone"] if several else []), *(["seed"] if seeded else [])]
    reasons = "".join(f"\n  {text}" for text in _reasons(rows, found))
    below = [f"not measured:{reasons}"] if reasons else []
    return _captioned(["beyond the core"], WideGrid(names, heads, lines), FULL_CAPTION, *below)


def stream_table(results: Iterable[tuple[RunRecord, Path]]) -> RenderableType | None:
    """Streams of requests: a row for every request of every run, reference rows included; None without a stream."""
    found = [(record, rows) for record, folder in results if (rows := stream_rows(folder))]
    if not found:
        return None
    first = found[0][0].cell
    backbones = len({record.cell.backbone for record, _ in found}) > 1
    seeds = len({record.cell.seed for record, _ in found}) > 1
    lines = []
    for record, rows in found:
        cell = record.cell
        parts = [*([_backbone(record)] * backbones), cell.method, *([f"seed {cell.seed}"] * seeds)]
        for place, row in enumerate(rows):
            cells = [_stream_text(row.get(column), column) for _, _, column in STREAM_COLUMNS]
            names = ("" if place else " ".join(parts), f"{row['request']:.0f}")
            lines.append(GridRow(names, cells, section=not place))
    title = [first.task, first.scale, f"{first.requests} requests, one after the other"]
    heads = [(head, name) for head, name, _ in STREAM_COLUMNS]
    return _captioned(title, WideGrid(("method", ""), heads, lines), STREAM_CAPTION)


def stream_rows(folder: Path) -> list[dict[str, Any]]:
    """Rows of a result's ``measurements/stream.csv`` as plain values, None where nothing was measured.

    Empty where the result is of a single request, or nothing of its stream could be measured.
    """
    path = folder / "measurements" / "stream.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        return [{name: _parsed(name, text) for name, text in row.items()} for row in csv.DictReader(lines)]


def number(value: float | None, *, signed: bool = False) -> str:
    """Four places, without the leading zero; a dash where nothing was measured."""
    if value is None:
        return "–"
    return bare(f"{value:+.4f}" if signed else f"{value:.4f}")


def _captioned(title: Sequence[str], grid: WideGrid, *below: str) -> RenderableType:
    from rich.console import Group as Lines
    from rich.text import Text

    caption, *further = below
    return Lines(Text(" · ".join(title), style="italic"), grid, Text(caption, style="dim"), *map(Text, further))


def _backbone(record: RunRecord) -> str:
    return record.backbone_label or record.cell.backbone


def _method_rows(records: Sequence[RunRecord], beam: int, *, seeded: bool) -> list[GridRow]:
    out = []
    for name in dict.fromkeys(record.cell.method for record in records):
        rows = [record for record in records if record.cell.method == name]
        values_of = [[one.value if (one := _find(row, column, beam)) else None for column in COLUMNS] for row in rows]
        for record, values in zip(rows, values_of, strict=True):
            names = [f"{name} (diverged)" if record.diverged else name, *([str(record.cell.seed)] * seeded)]
            cells = [*map(_number, values, COLUMNS), _seconds(record.cost.unlearn_seconds)]
            out.append(GridRow(names, cells, section=seeded and record is rows[0]))
        if len(rows) > 1:
            means = [_mean(values) for values in zip(*values_of, strict=True)]
            seconds = _mean([record.cost.unlearn_seconds for record in rows])
            out.append(GridRow((name, "mean"), [*map(_number, means, COLUMNS), _seconds(seconds)], style="bold"))
    return out


def _number(value: float | None, column: Column) -> str:
    return number(value, signed=column.signed)


def _find(record: RunRecord, column: Column, beam: int | None = None) -> MetricValue | None:
    found = (one for one in record.metrics if (one.metric, one.group) == (column.metric, column.group))
    return next((one for one in found if not column.lists or one.beam == beam), None)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) and known else None


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}" if value else "0"


def _reasons(rows: Sequence[RunRecord], found: Sequence[Sequence[MetricValue | None]]) -> list[str]:
    """``family: reason (rows)``, one line for each reason why something was not measured."""
    methods: dict[tuple[str, str], list[str]] = {}
    for record, line in zip(rows, found, strict=True):
        for value in line:
            if value is not None and value.value is None:
                key = (value.metric.partition(".")[0], value.note or "no reason given")
                methods.setdefault(key, []).append(record.cell.method)
    return [f"{family}: {note} ({', '.join(dict.fromkeys(names))})" for (family, note), names in methods.items()]


def _parsed(column: str, text: str) -> int | float | str | None:
    if not text or column == "names":
        return text or None
    return int(text) if text.lstrip("-").isdigit() else round(float(text), 15)


def _stream_text(value: float | None, column: str) -> str:
    places = {"interactions": 0, "seconds": 1, "share_of_retraining": 2}
    return f"{value:.{places[column]}f}" if value is not None and column in places else number(value)
