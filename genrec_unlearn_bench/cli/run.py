"""``bench run``: one task, some methods, some seeds, and tables of their results at the end."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.text import Text

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.leaderboard import Open, show_page
from genrec_unlearn_bench.config import named, one_of, overrides
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.progress_display import open_store
from genrec_unlearn_bench.reporting.formats.grid import GridRow, WideGrid
from genrec_unlearn_bench.reporting.wording import bare

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.pipeline.cells import Failed, Tracked
    from genrec_unlearn_bench.pipeline.record import RunRecord
    from genrec_unlearn_bench.pipeline.results import FinishedRun


def run(
    task: options.Task,
    method: options.Method,
    backbone: options.Backbones = ["tiger"],  # noqa: B006
    seed: options.Seed = None,
    scale: options.Scale = None,
    suite: options.Suite = "core",
    measure: options.Measure = None,
    data_dir: options.DataDir = None,
    encoder: options.Encoder = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    set_: options.Set = None,
    set_backbone: options.SetBackbone = None,
    set_sid: options.SetSid = None,
    set_measure: options.SetMeasure = None,
    ruleset: options.Ruleset = "default",
    tuned_dir: options.TunedDir = Path("tuned"),
    oracle_seeds: options.OracleSeeds = 1,
    requests: options.Requests = 1,
    shadows: options.Shadows = 0,
    beam: options.Beam = 10,
    tracker: options.Trackers = None,
    tracker_dir: options.TrackerDir = Path("tracking"),
    results_dir: options.ResultsDir = Path("results"),
    cache_dir: options.CacheDir = None,
    open_: Open = False,
) -> Output:
    """Run methods on a task: data, semantic IDs, recommender, unlearning, measurements, result.

    Finished stages are kept: a second method reuses the trained models and only runs its own unlearning, and an
    interrupted run goes on. The rows original and retrain come along. Give several values with commas.
    """
    from genrec_unlearn_bench.pipeline.cells import cells_of, run_cells
    from genrec_unlearn_bench.pipeline.request import RulesetName, RunRequest

    check_beam(beam)
    shared = RunRequest(
        task=task,
        method="original",
        scale=scale,
        suite=suite,
        measure=named(measure),
        data_dir=data_dir,
        encoder=encoder,
        device=device,
        threads=threads,
        **changed_fields(set_, set_backbone, set_sid, set_measure),
        ruleset=cast("RulesetName", one_of("ruleset", ruleset, get_args(RulesetName))),
        tuned_dir=tuned_dir,
        oracle_seeds=oracle_seeds,
        requests=requests,
        shadows=shadows,
        results_dir=results_dir,
    )
    cells = cells_of(shared, named(backbone), named(method), seed or [0])
    with open_store(cache_dir) as (store, progress):
        finished, failed = run_cells(cells, store, progress, _tracked(named(tracker), tracker_dir))
    return _outcome(finished, failed, beam, results_dir if open_ else None)


def _outcome(finished: Sequence[FinishedRun], failed: Failed, beam: int, shown: Path | None) -> Output:
    """Results, what failed on stderr, and the worst exit code of that; a method that diverged counts.

    Args:
        shown: Results folder whose page is shown in a browser.
    """
    if shown is not None and finished:
        show_page(shown)
    diverged = [done.record.cell for done in finished if done.record.diverged]
    faults = [f"diverged: {one.backbone}, {one.method}, seed {one.seed}: not finite, see the row" for one in diverged]
    faults += [f"error: {one.backbone}, {one.method}, seed {one.seed}: {fault.render()}" for one, fault in failed]
    code = max(int(bool(faults)), *(fault.exit_code for _, fault in failed), 0)
    parts = [lambda console: _draw(finished, beam, console)] if finished else []

    def document(done: FinishedRun) -> dict[str, Any]:
        found = {"folder": str(done.folder), "record": done.record.model_dump(mode="json")}
        return found if done.record.cell.requests == 1 else {**found, "stream": stream_rows(done.folder)}

    return Output(lambda: [document(done) for done in finished], parts, code, faults)


def check_beam(beam: int) -> None:
    """Raise UsageError for a beam width that results have no lists of."""
    if beam not in (10, 50):
        raise UsageError(f"the protocol decodes at beam 10 and 50, not {beam}", hint="use --beam 10 or --beam 50")


def changed_fields(
    method: Sequence[str] | None,
    backbone: Sequence[str] | None,
    sid: Sequence[str] | None,
    measure: Sequence[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Fields of a request from ``--set``, ``--set-backbone``, ``--set-sid`` and ``--set-measure``."""
    return {
        "method_set": overrides(method or []),
        "backbone_set": overrides(backbone or [], where="--set-backbone"),
        "sid_set": overrides(sid or [], where="--set-sid"),
        "measure_set": overrides(measure or [], where="--set-measure"),
    }


def _tracked(names: Sequence[str], folder: Path) -> Tracked | None:
    """What sends a cell's losses to the named trackers."""
    if not names:
        return None
    from genrec_unlearn_bench.executors.trackers import tracked, tracking_of
    from genrec_unlearn_bench.grid.expand import cell_name

    tracking = tracking_of(names, folder)
    return lambda request, progress: tracked(progress, tracking, cell_name(request))


class Column(NamedTuple):
    """One metric of a table; columns with the same ``head`` stay together where a table is cut.

    Attributes:
        lists: Whether the metric has a value for each beam.
    """

    head: str
    title: str
    metric: str
    group: Group
    signed: bool = False
    lists: bool = True


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

STREAM_PLACES = {"interactions": 0, "seconds": 1, "share_of_retraining": 2}

STREAM_CAPTION = (
    "right after each request, at beam 10 · interact.: train interactions it asked to forget\n"
    "exposed: HR@10 of the weights without serving rules, in the original IDs\n"
    "forget: its own test interactions · so far: all requests up to it · earlier: those before (rising: back again)\n"
    "retain: never requested in the stream · time: of the request, and of all so far over one retraining's"
)


def _draw(finished: Sequence[FinishedRun], beam: int, console: Console) -> None:
    records = [done.record for done in finished]
    streams = ((done.record, done.folder) for done in finished)
    for table in (run_table(records, beam=beam), full_table(records), stream_table(streams)):
        if table is not None:
            console.print(table)
    several = len({record.cell.backbone for record in records}) > 1
    for done in finished:
        cell = done.record.cell
        name = f"{cell.backbone}, {cell.method}" if several else cell.method
        console.print(f"  {name}, seed {cell.seed}: {done.folder}", soft_wrap=True)


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
        mine = [record for record in records if _backbone(record) == backbone]
        rows += [GridRow((backbone,), (), style="bold", section=True)] if len(names) > 1 else []
        for method in dict.fromkeys(record.cell.method for record in mine):
            rows += _method_rows([record for record in mine if record.cell.method == method], beam, seeded=seeded)
    heads = [*((column.head, column.title) for column in COLUMNS), ("time", "seconds")]
    return _captioned(title, WideGrid(("method", *["seed"] * seeded), heads, rows), CAPTION)


def _method_rows(records: Sequence[RunRecord], beam: int, *, seeded: bool) -> list[GridRow]:
    """A method's runs, and below several their mean, which is none where one of them has no value."""
    out, lines = [], []
    for record in records:
        found = [_find(record, column, beam) for column in COLUMNS]
        lines.append([*(one.value if one else None for one in found), record.cost.unlearn_seconds])
        names = [record.cell.method + " (diverged)" * record.diverged, *[str(record.cell.seed)] * seeded]
        out.append(GridRow(names, _cells(lines[-1]), section=seeded and record is records[0]))
    if len(records) > 1:
        means = [None if None in column else sum(column) / len(column) for column in zip(*lines, strict=True)]
        out.append(GridRow((records[0].cell.method, "mean"), _cells(means), style="bold"))
    return out


def _cells(values: Sequence[float | None]) -> list[str]:
    """Texts of the core columns, and of the seconds at the end."""
    *core, seconds = values
    shown = [number(value, signed=column.signed) for value, column in zip(core, COLUMNS, strict=True)]
    return [*shown, "–" if seconds is None else f"{seconds:.1f}" if seconds else "0"]


def full_table(records: Sequence[RunRecord]) -> RenderableType | None:
    """Measurements beyond the core: a row for every record that has some; None where no record has.

    Below it, once each, the reasons why something could not be measured.
    """
    rows = [record for record in records if record.measuring]
    if not rows:
        return None
    shown = [column for column in FULL_COLUMNS if any(_find(record, column) for record in rows)]
    seeded, several = len({row.cell.seed for row in rows}) > 1, len({row.cell.backbone for row in rows}) > 1
    lines, reasons = [], dict[str, dict[str, None]]()
    for record in rows:
        names = [record.cell.method, *[_backbone(record)] * several, *[str(record.cell.seed)] * seeded]
        cells = []
        for column in shown:
            found = _find(record, column)
            cells.append(number(found.value if found else None, signed=column.signed))
            if found and found.value is None:
                reason = f"{found.metric.partition('.')[0]}: {found.note or 'no reason given'}"
                reasons.setdefault(reason, {})[record.cell.method] = None
        lines.append(GridRow(names, cells))
    names = ["method", *["backbone"] * several, *["seed"] * seeded]
    grid = WideGrid(names, [(column.head, column.title) for column in shown], lines)
    below = ["not measured:", *(f"  {reason} ({', '.join(methods)})" for reason, methods in reasons.items())]
    return _captioned(["beyond the core"], grid, FULL_CAPTION, *(["\n".join(below)] if reasons else []))


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
        parts = [*[_backbone(record)] * backbones, cell.method, *[f"seed {cell.seed}"] * seeds]
        for place, row in enumerate(rows):
            cells = []
            for _, _, column in STREAM_COLUMNS:
                value = row.get(column)
                places = STREAM_PLACES.get(column) if value is not None else None
                cells.append(number(value) if places is None else f"{value:.{places}f}")
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


def _parsed(column: str, text: str) -> int | float | str | None:
    if not text or column == "names":
        return text or None
    return int(text) if text.lstrip("-").isdigit() else round(float(text), 15)


def number(value: float | None, *, signed: bool = False) -> str:
    """Four places, without the leading zero; a dash where nothing was measured."""
    return "–" if value is None else bare(f"{value:+.4f}" if signed else f"{value:.4f}")


def _captioned(title: Sequence[str], grid: WideGrid, caption: str, *further: str) -> RenderableType:
    return Lines(Text(" · ".join(title), style="italic"), grid, Text(caption, style="dim"), *map(Text, further))


def _backbone(record: RunRecord) -> str:
    return record.backbone_label or record.cell.backbone


def _find(record: RunRecord, column: Column, beam: int | None = None) -> MetricValue | None:
    found = (one for one in record.metrics if (one.metric, one.group) == (column.metric, column.group))
    return next((one for one in found if not column.lists or one.beam == beam), None)
