"""``bench run``: one task, some methods, some seeds, and tables of their results at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.text import Text

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.config import named, one_of, overrides
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord, weak_original
from genrec_unlearn_bench.progress_display import open_store
from genrec_unlearn_bench.reporting.formats.grid import GridRow, WideGrid
from genrec_unlearn_bench.reporting.wording import bare

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.cells import Failed, Tracked
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
    sids: options.Sids = None,
    encoder: options.Encoder = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    set_: options.Set = None,
    set_backbone: options.SetBackbone = None,
    set_sid: options.SetSid = None,
    set_measure: options.SetMeasure = None,
    max_hours: options.MaxHours = None,
    ruleset: options.Ruleset = "default",
    tuned_dir: options.TunedDir = Path("tuned"),
    oracle_seeds: options.OracleSeeds = 1,
    sasrec: options.Sasrec = None,
    requests: options.Requests = 1,
    shadows: options.Shadows = 0,
    tensorboard: options.TensorBoard = None,
    results_dir: options.ResultsDir = Path("results"),
    cache_dir: options.CacheDir = None,
) -> Output:
    """Run methods on a task: data, semantic IDs, recommender, unlearning, measurements, result.

    Finished stages are kept: a second method reuses the trained models and only runs its own unlearning, and an
    interrupted run goes on. The rows original and retrain come along. Give several values with commas.
    """
    from genrec_unlearn_bench.pipeline.cells import cells_of, run_cells
    from genrec_unlearn_bench.pipeline.request import RulesetName, RunRequest

    more: dict[str, Any] = {"oracle_seeds": oracle_seeds, "sasrec": sasrec, "requests": requests, "shadows": shadows}
    more |= {"tuned_dir": tuned_dir, "results_dir": results_dir}
    shared = RunRequest(
        task=task,
        method="original",
        scale=scale,
        suite=suite,
        measure=named(measure),
        data_dir=data_dir,
        sids=sids,
        encoder=encoder,
        device=device,
        threads=threads,
        **changed_fields(set_, set_backbone, set_sid, set_measure, max_hours),
        ruleset=cast("RulesetName", one_of("ruleset", ruleset, get_args(RulesetName))),
        **more,
    )
    cells = cells_of(shared, named(backbone), named(method), seed or [0])
    with open_store(cache_dir) as (store, progress):
        finished, failed = run_cells(cells, store, progress, _tracked(tensorboard))
    return _outcome(finished, failed)


def _outcome(finished: Sequence[FinishedRun], failed: Failed) -> Output:
    """Results, what failed on stderr, and the worst exit code of that; a method that diverged counts."""
    diverged = [done.record.cell for done in finished if done.record.diverged]
    faults = [f"diverged: {one.backbone}, {one.method}, seed {one.seed}: not finite, see the row" for one in diverged]
    faults += [f"error: {one.backbone}, {one.method}, seed {one.seed}: {fault.render()}" for one, fault in failed]
    code = max(int(bool(faults)), *(fault.exit_code for _, fault in failed), 0)
    parts = [lambda console: _draw(finished, console)] if finished else []

    def content() -> list[dict[str, Any]]:
        return [{"folder": str(done.folder), "record": done.record.model_dump(mode="json")} for done in finished]

    return Output(content, parts, code, faults)


def changed_fields(
    method: Sequence[str] | None,
    backbone: Sequence[str] | None,
    sid: Sequence[str] | None,
    measure: Sequence[str] | None = None,
    max_hours: float | None = None,
) -> dict[str, dict[str, Any]]:
    """Fields of a request from ``--set``, ``--set-backbone``, ``--set-sid``, ``--set-measure`` and ``--max-hours``."""
    limit = {} if max_hours is None else {"max_hours": max_hours}
    return {
        "method_set": overrides(method or []),
        "backbone_set": overrides(backbone or [], where="--set-backbone") | limit,
        "sid_set": overrides(sid or [], where="--set-sid"),
        "measure_set": overrides(measure or [], where="--set-measure"),
    }


def _tracked(folder: Path | None) -> Tracked | None:
    """What writes a cell's losses for TensorBoard."""
    if folder is None:
        return None
    from genrec_unlearn_bench.executors.job_progress import tensorboard
    from genrec_unlearn_bench.grid.expand import cell_name

    return lambda request, progress: tensorboard(progress, folder, cell_name(request))


BEAM = 10
"""The paper's; ``bench leaderboard --beam 50`` shows the other."""
COLUMNS = (
    ("forget", "HR@10", "hr@10", Group.FORGET),
    ("forget", "exposed", "exposed.hr@10", Group.FORGET),
    ("forget", "worst", "worst-case.hr@10", Group.FORGET),
    ("forget", "CR@10", "concept-rate@10", Group.FORGET),
    ("retain", "HR@10", "hr@10", Group.RETAIN),
    ("retain", "NDCG@10", "ndcg@10", Group.RETAIN),
    ("retain", "Sim.", "similarity.first.scrubbed", Group.RETAIN),
    ("near", "NDCG@10", "ndcg@10", Group.NEAR),
    ("tokens", "Ω", "overlap.mean", Group.ALL),
    ("gap", "Δf HR", "gap.worst-case.hr@10", Group.FORGET),
    ("gap", "Δr HR", "gap.hr@10", Group.RETAIN),
)
"""Head and title of each column, and its metric; columns of one head stay together where a table is cut."""

CAPTION = (
    "forget: the target is the row retrain, not 0 · CR: share of concept items in the list\n"
    "exposed: HR@10 of the weights without serving rules, in the original IDs · worst: the higher of the two\n"
    "retain: higher is better · near: retained users whose target is a neighbour of the concept\n"
    "Sim.: cosine of the first item's text and the target's, without the concept · Ω: token overlap\n"
    "Δf, Δr: worst forget HR@10 and retain HR@10 minus retrain's · seconds: unlearning alone"
)


def _draw(finished: Sequence[FinishedRun], console: Console) -> None:
    records = [done.record for done in finished]
    console.print(run_table(records))
    several = len({record.cell.backbone for record in records}) > 1
    for done in finished:
        cell = done.record.cell
        name = f"{cell.backbone}, {cell.method}" if several else cell.method
        console.print(f"  {name}, seed {cell.seed}: {done.folder}", soft_wrap=True)
    for why in sorted({why for record in records if (why := weak_original(record.original_over_sasrec))}):
        console.print(f"weak original: {why}, so that it says little about unlearning")
    for name, far in {name: far for record in records for name, far in record.ended_early.items()}.items():
        console.print(f"ended early: {name} {far}")
    for note in dict.fromkeys(note for record in records for note in record.notes if not note.startswith("max_hours")):
        console.print(f"note: {note}", soft_wrap=True)
    if any(record.measuring for record in records):
        console.print("beyond the core: bench leaderboard --layout attack")
    if any(record.cell.requests > 1 for record in records):
        console.print("request by request: bench leaderboard --layout streams")


def run_table(records: Sequence[RunRecord]) -> RenderableType:
    """Core table: a row for every record; with several seeds, each method's mean below its rows.

    Several backbones are shown one below the other, each under its name.
    """
    first, seeded = records[0].cell, len({record.cell.seed for record in records}) > 1
    found: dict[str, dict[str, list[RunRecord]]] = {}
    for record in records:
        methods = found.setdefault(record.backbone_label or record.cell.backbone, {})
        methods.setdefault(record.cell.method, []).append(record)
    title = [first.task, *([] if len(found) > 1 else found), first.scale, f"beam {BEAM}"]
    rulesets = dict.fromkeys(record.cell.ruleset for record in records if record.cell.ruleset != "default")
    counts = dict.fromkeys(record.cell.requests for record in records if record.cell.requests > 1)
    title += [*(f"ruleset {name}" for name in rulesets), *(f"{count} requests" for count in counts)]
    rows = []
    for backbone, methods in found.items():
        rows += [GridRow((backbone,), (), style="bold", section=True)] if len(found) > 1 else []
        rows += [row for mine in methods.values() for row in _method_rows(mine, seeded=seeded)]
    heads = [*((head, name) for head, name, *_ in COLUMNS), ("time", "seconds")]
    grid = WideGrid(("method", *["seed"] * seeded), heads, rows)
    return Lines(Text(" · ".join(title), style="italic"), grid, Text(CAPTION, style="dim"))


def _method_rows(records: Sequence[RunRecord], *, seeded: bool) -> list[GridRow]:
    """A method's runs, and below several their mean, which is none where one of them has no value."""
    out, lines = [], []
    for record in records:
        values = {(one.metric, one.group): one.value for one in record.metrics if one.beam in (BEAM, None)}
        lines.append([*(values.get((metric, group)) for *_, metric, group in COLUMNS), record.cost.unlearn_seconds])
        names = [record.cell.method + " (diverged)" * record.diverged, *[str(record.cell.seed)] * seeded]
        out.append(GridRow(names, _cells(lines[-1]), section=seeded and record is records[0]))
    if len(records) > 1:
        means = [None if None in column else sum(column) / len(column) for column in zip(*lines, strict=True)]
        out.append(GridRow((records[0].cell.method, "mean"), _cells(means), style="bold"))
    return out


def _cells(values: Sequence[float | None]) -> list[str]:
    """Texts of the core columns, and of the seconds at the end."""
    *core, seconds = values
    shown = [number(value, signed=head == "gap") for value, (head, *_) in zip(core, COLUMNS, strict=True)]
    return [*shown, "–" if seconds is None else f"{seconds:.1f}" if seconds else "0"]


def number(value: float | None, *, signed: bool = False) -> str:
    """Four places, without the leading zero; a dash where nothing was measured."""
    return "–" if value is None else bare(f"{value:+.4f}" if signed else f"{value:.4f}")
