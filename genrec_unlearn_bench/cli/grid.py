"""``bench grid``: ``plan`` says what of a grid is done and what the rest will take, ``status`` how a sweep stands, and
``collect`` gathers what there is."""

from __future__ import annotations

import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, Part, first_lines, sheet
from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress_display import duration, open_store, progressing
from genrec_unlearn_bench.reporting.wording import counted

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.plan import Plan, PlannedCell
    from genrec_unlearn_bench.grid.spec import Job
    from genrec_unlearn_bench.grid.status import Axis, Collected, SweepStatus
    from genrec_unlearn_bench.progress import Progress

STYLES = {"done": "green", "missing": "yellow", "stale": "magenta", "impossible": "red"}
MAX_REASONS = 8
MAX_SHARED = 12
LOOK_SECONDS = 2.0
ASK_SECONDS = 60.0
"""Time between two questions to Slurm, which has all its users to answer."""
TAILS = 12
"""Lines of a failed job's log with --failed."""
MAX_RUNNING = 20
MAX_FAILED = 5
MAX_ABSENT = 12
"""Cells that are not there, listed one by one."""

Explain = Annotated[str | None, Option(help="One cell: its stages, and what makes it differ.", metavar="CELL")]
Cells = Annotated[bool, Option("--cells", help="List every cell with its standing and the reason.")]
Swept = Annotated[str | None, Argument(help="Name or file of a grid (default: the one active last).", metavar="GRID")]
Once = Annotated[bool, Option("--once", help="Print it once and stop; so is what is piped.")]
Failed = Annotated[bool, Option("--failed", help="Show all failed jobs, with the last lines of their logs.")]
By = Annotated[str, Option(help="Count by backbone, task, method or stage.")]
AnyGrid = Annotated[
    str, Argument(help="A grid that was run, a grid file, or the name of a ready grid.", metavar="GRID")
]
Out = Annotated[Path | None, Option(help="Folder for the results (default: collected/<grid>).", metavar="DIR")]
ResultsDir = Annotated[Path | None, Option(help="Where the results are (default: where they were put).", metavar="DIR")]
TunedDir = Annotated[Path | None, Option(help="Where the choices of bench tune lie.", metavar="DIR")]


def plan(
    grid: options.Grid,
    explain: Explain = None,
    cells: Cells = False,
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    results_dir: options.ResultsDir = Path("results"),
    tuned_dir: options.TunedDir = Path("tuned"),
    device: options.GridDevice = None,
) -> Output:
    """Show what of a grid is done, missing, stale or impossible and why, shared stages, time and disk.

    Nothing is computed, written or downloaded. Times are the medians of stages of the same configuration in this cache.
    """
    from genrec_unlearn_bench.grid.expand import expand, find_cell, graph_builder, read_grid
    from genrec_unlearn_bench.grid.plan import explain_cell, make_plan

    spec = read_grid(grid, data_dir)
    found = expand(spec, data_dir=data_dir, results_dir=results_dir, tuned_dir=tuned_dir, device=device)
    build = graph_builder()
    with open_store(cache_dir) as (store, progress):
        if explain is not None:
            return _explanation(explain_cell(find_cell(explain, found), build, store))
        planned = make_plan(found, build, store, progress)
    jobs = planned.jobs
    parts: list[Part] = [
        *_counts_tables(spec.name, planned),
        *_reasons(planned),
        *_shared(planned.shared),
        *_totals(planned, jobs, store.root),
    ]
    if cells:
        parts += ["", *map(_cell_line, planned.cells)]
    outlook: dict[str, float] = {"jobs": len(jobs), "unknown": sum(job.seconds is None for job in jobs)}
    outlook |= {"seconds": sum(job.seconds or 0.0 for job in jobs), "size": sum(job.size or 0 for job in jobs)}
    of_job, of_cell = {"name", "until", "seconds", "size", "needs"}, ("standing", "reason", "hint", "seconds", "size")
    content = {
        "grid": spec.name,
        "counts": planned.counts,
        "outlook": outlook,
        "shared": [job.model_dump(include=of_job) | {"cells": len(job.cells)} for job in planned.shared],
        "cells": [
            {"name": one.cell.name, "result": str(one.result) if one.result else None, "needs": one.needs}
            | {name: getattr(one, name) for name in of_cell}
            for one in planned.cells
        ],
    }
    return Output(content, parts)


def _counts_tables(name: str, plan: Plan) -> list[Table]:
    """Cells by backbone and by method, each by standing; only the first where there is one method."""
    tables = []
    for axis in ("backbone", "method"):
        groups: dict[str, Counter[str]] = defaultdict(Counter)
        for planned in plan.cells:
            group = str(planned.cell.axes.get(axis) or getattr(planned.cell.request, axis))
            groups[group][planned.standing] += 1
        if len(groups) > 1:
            groups["all"] = sum(groups.values(), Counter())
        rows = [
            (group, *(str(counts[one] or "·") for one in STYLES), str(counts.total()))
            for group, counts in groups.items()
        ]
        columns = (*STYLES, "cells")
        tables.append(sheet(rows, (axis, *columns), right=columns))
        for column, style in zip(tables[-1].columns[1:], STYLES.values(), strict=False):
            column.style = column.header_style = style
    tables[0].title = f"{name}: {counted(len(plan.cells), 'cell')}"
    return tables if tables[1].row_count > 1 else tables[:1]


def _reasons(plan: Plan) -> list[str | Text]:
    found: list[str | Text] = []
    for standing in ("impossible", "stale", "missing"):
        groups = Counter((cell.reason, cell.hint) for cell in plan.cells if cell.standing == standing)
        if groups:
            lines = [
                "\n      ".join([f"  {counted(count, 'cell')}: {reason}", *map(str.strip, hint.splitlines())])
                for (reason, hint), count in groups.most_common()
            ]
            found += ["", Text(f"{standing}:", style=STYLES[standing])]
            found += first_lines(lines, most=MAX_REASONS, more="--cells has all")
    return found


def _shared(jobs: Sequence[Job]) -> list[str]:
    lines = [f"  {job.name}: {counted(len(job.cells), 'cell')}" for job in jobs]
    title = ["", f"shared stages to be made: {len(jobs)}"] if jobs else []
    return [*title, *first_lines(lines, most=MAX_SHARED, more="--json")]


def _totals(plan: Plan, jobs: Sequence[Job], cache: Path) -> list[str]:
    from genrec_unlearn_bench.store.inventory import format_bytes

    if not jobs:
        return ["", "everything that can be run is done" if plan.counts["impossible"] else "everything is done"]
    known = [job.seconds for job in jobs if job.seconds is not None]
    if not known:
        return ["", f"time: unknown, as no stage of these {counted(len(jobs), 'job')} is in the cache"]
    left = len(jobs) - len(known)
    unknown = f", without {counted(left, 'job')} of {len(jobs)} of which nothing is known" if left else ""
    place = next((folder for folder in (cache, *cache.absolute().parents) if folder.is_dir()), None)
    free = "" if place is None else f"; {format_bytes(shutil.disk_usage(place).free)} free"
    size = sum(job.size or 0 for job in jobs)
    return [
        "",
        f"time: {duration(sum(known))} on one process{unknown}",
        f"disk: {format_bytes(size)} more in {cache}{unknown}{free}",
    ]


def _cell_line(planned: PlannedCell) -> Text:
    line = Text(f"{planned.standing:<10} ", style=STYLES[planned.standing])
    time = f" ({duration(planned.seconds)})" if planned.waits and planned.seconds else ""
    behind = planned.reason or (str(planned.result) if planned.result else "")
    line.append(f"{planned.cell.name}{time}: {behind}" if behind else f"{planned.cell.name}{time}", style="default")
    return line


def _explanation(found: dict[str, Any]) -> Output:
    standing, steps, difference = found["standing"], found["steps"], found["difference"]
    title = Text(standing, style=STYLES[standing])
    if found["reason"]:
        title.append(f": {found['reason']}", style="default")
    lines: list[str | Text] = [found["name"], title, *(f"  {line.strip()}" for line in found["hint"].splitlines())]
    if found["result"] is not None:
        lines.append(f"result: {found['result']}")
    names = [f"{step['name']} of {step['of']}" if step["of"] else step["name"] for step in steps]
    lines += [""] if names else []
    for name, step in zip(names, steps, strict=True):
        was = f", was {step['then'][:10]}" if step["then"] else ""
        state = f"{'there' if step['there'] else 'to be made'}{was}"
        lines.append(f"  {name:<{max(map(len, names))}}  {step['key'][:10]}  {state}")
    if difference is not None:
        lines += ["", f"{difference['stage']}, compared with {found['compared']}:"]
        lines += [f"  {field}" for field in difference["fields"] or ("nothing is left of it to compare with",)]
    return Output(found, lines)


def status(
    grid: Swept = None,
    by: By = "backbone",
    failed: Failed = False,
    once: Once = False,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Show how a sweep stands: jobs by state, what runs where and since when, failures, time left, cells ready.

    On a terminal the table stays and is kept up to date until nothing moves any more, or until Ctrl-C, which ends the
    view and not the sweep.
    """
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.state import find_sweep
    from genrec_unlearn_bench.grid.status import Axis, sweep_status

    one_of("axis", by, get_args(Axis))
    cache = options.cache_root(cache_dir)
    found = find_sweep(cache, grid)
    # Jobs that a scheduler has ended cannot write that themselves.
    slurm_states(found)

    def look() -> SweepStatus:
        return sweep_status(found, by=cast("Axis", by), tails=TAILS if failed else 0)

    def watch(console: Console) -> None:
        from rich.live import Live

        if once or not console.is_terminal:
            console.print(_drawn(now, failed), soft_wrap=True)
            return
        seen, asked = now, time.monotonic()
        # The view may be ended; what it showed stays on the terminal.
        with (
            suppress(KeyboardInterrupt),
            Live(_drawn(now, failed), console=console, auto_refresh=False) as live,
        ):
            while seen.moves:
                time.sleep(LOOK_SECONDS)
                if time.monotonic() - asked > ASK_SECONDS:
                    slurm_states(found)
                    asked = time.monotonic()
                seen = look()
                live.update(_drawn(seen, failed), refresh=True)

    now = look()
    return Output(now.model_dump(mode="json"), [watch])


def running_lines(now: SweepStatus, most: int = MAX_RUNNING) -> list[str]:
    """The jobs that run, one a line."""
    found = []
    for job in now.running:
        where = f"{job.host} {job.place}".strip()
        attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
        late = f" ({job.late})" if job.late else ""
        found.append(f"  {job.job}: {job.stage or 'starting'}, {duration(job.seconds)}{attempt}, {where}{late}")
    return first_lines(found, most=most, more="--json has all")


def _drawn(now: SweepStatus, all_failed: bool) -> RenderableType:
    groups = {**now.groups, "all": now.counts} if len(now.groups) > 1 else now.groups
    rows = [(name, *(str(count or "·") for count in counts.values())) for name, counts in groups.items()]
    table = sheet(rows, ("", *now.counts), title=f"{now.grid}: jobs", right=[*now.counts])
    left = "" if now.seconds_left is None else f", about {duration(now.seconds_left)} left"
    found = [f"cells ready: {now.ready} of {now.cells}{left}"]
    if now.last is not None:
        found.append(f"last sign: {duration(max(0.0, time.time() - now.last))} ago")
    if now.results:
        found.append(f"results: {now.results}")
    if not now.moves and now.counts["queued"] + now.counts["lost"]:
        found.append(f"nothing runs; it goes on with: {now.command or 'bench grid run ' + now.grid}")
    if now.running:
        found += ["", "running:", *running_lines(now)]
    own = [job for job in now.failed if job.state != "skipped"]
    if own:
        skipped = len(now.failed) - len(own)
        found += ["", "failed:" + (f" ({skipped} more were skipped, as they need one of these)" if skipped else "")]
        listed = [failed_lines(job.job, job.state, job.error, job.attempt, job.log, job.tail) for job in own]
        heads = first_lines([head for head, *_ in listed], most=MAX_FAILED, more="--failed has all, with logs")
        found += [line for lines in listed for line in lines] if all_failed else heads
    return Group(table, Text("\n".join(found)))


def failed_lines(job: str, how: str, error: str, attempts: int, log: str, tail: Sequence[str]) -> list[str]:
    """A failed job with the end of its log."""
    first, *rest = error.splitlines() or [""]
    behind = [*rest, f"log: {log}", *(f"| {line}" for line in tail)]
    return [f"  {job}, attempt {attempts}: {how}: {first}", *(f"    {line}" for line in behind)]


def collect(
    grid: AnyGrid,
    out: Out = None,
    results_dir: ResultsDir = None,
    data_dir: options.DataDir = None,
    tuned_dir: TunedDir = None,
    device: options.GridDevice = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Copy the results of a grid's cells into one folder, say which cells are not there and why, and show the table.

    May be called while the grid runs, and again: what is gathered stays, what is new comes in. Other tables are made by
    bench leaderboard --results-dir. Exit code 1 where a cell failed or its result is damaged.
    """
    from genrec_unlearn_bench.reporting.formats.terminal import draw
    from genrec_unlearn_bench.reporting.results import load_results
    from genrec_unlearn_bench.reporting.selection import Selection
    from genrec_unlearn_bench.submissions.result_set import ResultSet

    with progressing() as progress:
        places = {"results_dir": results_dir, "data_dir": data_dir, "tuned_dir": tuned_dir}
        found, place = _gather(grid, options.cache_root(cache_dir), out, places, device, progress)

    def table(console: Console) -> None:
        there = {cell.place for cell in found.of("there")}
        if there:
            mine = tuple(result for result in load_results([place]).results if result.place in there)
            report = ResultSet(mine).report(Selection())
            draw(console, report.tables, across=report.across)

    counts = {str(state): count for state, count in found.counts.items()}
    content = {"folder": str(place), "counts": counts, **found.model_dump(mode="json")}
    return Output(content, [*_collected_lines(found, place), table], exit_code=int(bool(found.of("failed", "damaged"))))


def _gather(
    grid: str, cache: Path, out: Path | None, places: dict[str, Any], device: str | None, progress: Progress
) -> tuple[Collected, Path]:
    """Gather the grid's cells, with the sweep's own places where the call names none."""
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.expand import expand, graph_builder, read_grid
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.state import SweepFolder, find_sweep
    from genrec_unlearn_bench.grid.status import collect as gather
    from genrec_unlearn_bench.store.store import StageStore

    try:
        sweep = find_sweep(cache, grid)
        # Jobs that a scheduler has ended cannot write that themselves.
        slurm_states(sweep)
    except UsageError:
        # Never swept: its cells may have been run one by one. A wrong name is reported by whoever reads the grid.
        sweep = SweepFolder.of(cache, grid)
    facts, swept = sweep.facts(), sweep.root / "grid.yaml"
    kept = {name: Path(place) for name in places if (place := getattr(facts, name))}
    places = (
        {"results_dir": Path("results"), "tuned_dir": Path("tuned"), "data_dir": None}
        | kept
        | {name: place for name, place in places.items() if place is not None}
    )
    spec = read_grid(str(swept) if swept.is_file() and not Path(grid).is_file() else grid, places["data_dir"])
    cells = expand(spec, **places, device=device or facts.device or None)
    plan = make_plan(cells, graph_builder(), StageStore(cache, progress), progress)
    place = out or Path("collected") / spec.name
    return gather(spec.name, plan.cells, sweep, place, progress), place


def _collected_lines(found: Collected, place: Path) -> list[str]:
    counts = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    lines = [f"{found.grid}: {len(found.cells)} cells: {counts}", f"gathered in {place}"]
    diverged = [cell.cell for cell in found.of("there") if cell.diverged]
    lines += [f"diverged, so not ranked: {', '.join(diverged)}"] if diverged else []
    absent = [cell for cell in found.cells if cell.state != "there"]
    absent.sort(key=lambda cell: cell.state not in ("failed", "damaged", "lost"))
    listed = [f"  {cell.state}: {cell.cell}{': ' + cell.reason if cell.reason else ''}" for cell in absent]
    return lines + first_lines(listed, most=MAX_ABSENT, more="collected.json has all")
