"""``bench grid plan``, ``status`` and ``collect``: what of a grid is done, what runs, and its results in one folder."""

from __future__ import annotations

import shutil
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, Part, first_lines, sheet
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.progress_display import duration, open_store, progressing
from genrec_unlearn_bench.reporting.wording import counted

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.collect import Collected
    from genrec_unlearn_bench.grid.plan import Explanation, Outlook, Plan, PlannedCell
    from genrec_unlearn_bench.grid.status import Axis, FailedJob, SweepStatus

STYLES = {"done": "green", "missing": "yellow", "stale": "magenta", "impossible": "red"}
MAX_REASONS = 8
MOST = 12
"""Lines of shared stages, of cells that are not there, and of a failed job's log."""
MAX_RUNNING = 20
MAX_FAILED = 5
SLURM_SECONDS = 60.0
"""Time between two questions to Slurm, which has all its users to answer."""

Explain = Annotated[str | None, Option(help="One cell: its stages, and what makes it differ.", metavar="CELL")]
OfStanding = Annotated[str | None, Option("--standing", help="List cells that are done, missing, stale or impossible.")]


def plan(
    grid: options.Grid,
    explain: Explain = None,
    cells: Annotated[bool, Option("--cells", help="List every cell with its standing and the reason.")] = False,
    standing: OfStanding = None,
    processes: Annotated[int, Option(help="Processes to tell the time for.", min=1)] = 1,
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    results_dir: options.ResultsDir = Path("results"),
    tuned_dir: options.TunedDir = Path("tuned"),
    device: options.GridDevice = None,
) -> Output:
    """Show what of a grid is done, missing, stale or impossible and why, shared stages, time and disk.

    Nothing is computed, written or downloaded. Times are the medians of stages of the same configuration in this cache.
    """
    from genrec_unlearn_bench.grid.expand import expand, find_cell, graph_builder
    from genrec_unlearn_bench.grid.plan import explain_cell, make_plan, outlook
    from genrec_unlearn_bench.grid.reader import read_grid

    if standing is not None:
        one_of("standing", standing, STYLES)
    spec = read_grid(grid, data_dir)
    found = expand(spec, data_dir=data_dir, results_dir=results_dir, tuned_dir=tuned_dir, device=device)
    build = graph_builder()
    with open_store(cache_dir) as (store, progress):
        if explain is not None:
            return _explanation(explain_cell(find_cell(explain, found), build, store))
        planned = make_plan(found, build, store, progress)
    whole = outlook(planned, processes)
    listed = [cell for cell in planned.cells if standing in (None, cell.standing)]
    parts: list[Part] = [*_counts_tables(spec.name, planned), *_reasons(planned)]
    if planned.shared:
        times = ("unknown" if one.seconds is None else duration(one.seconds) for one in planned.shared)
        lines = [
            f"  {one.name}: {counted(len(one.cells), 'cell')}, {took}"
            for one, took in zip(planned.shared, times, strict=True)
        ]
        parts += ["", f"shared stages to be made: {len(lines)}", *first_lines(lines, most=MOST, more="--json")]
    parts += ["", *_totals(planned, whole, store.root)]
    if cells or standing is not None:
        parts.append("")
        for one in listed:
            took = f" ({duration(one.seconds)})" if one.waits and one.seconds else ""
            behind = one.reason or (str(one.result) if one.result else "")
            line = Text(f"{one.standing:<10} ", style=STYLES[one.standing])
            parts.append(line.append(f"{one.cell.name}{took}{behind and f': {behind}'}", style="default"))
    return Output(_document(spec.name, planned, whole, listed), parts)


def _document(name: str, planned: Plan, whole: Outlook, listed: list[PlannedCell]) -> dict[str, Any]:
    def costs(one: Any) -> dict[str, Any]:
        return {"seconds": one.seconds, "size": one.size, "memory_mib": one.memory_mib, "needs": one.needs}

    shared = [
        {"name": stage.name, "until": stage.until, "cells": len(stage.cells), **costs(stage)}
        for stage in planned.shared
    ]
    cells = [
        {
            "name": cell.cell.name,
            **{name: getattr(cell, name) for name in ("standing", "reason", "hint")},
            "result": str(cell.result) if cell.result else None,
            **costs(cell),
        }
        for cell in listed
    ]
    counts = {str(standing): count for standing, count in planned.counts.items()}
    return {"grid": name, "counts": counts, "outlook": asdict(whole), "shared": shared, "cells": cells}


def _counts_tables(name: str, plan: Plan) -> list[Table]:
    """Cells by backbone and by method, each by standing; only the first where there is one method."""
    tables = []
    for axis in ("backbone", "method"):
        groups: dict[str, Counter[str]] = defaultdict(Counter)
        for planned in plan.cells:
            group = str(planned.cell.axes.get(axis) or getattr(planned.cell.request, axis))
            groups[group][planned.standing] += 1
        if len(groups) > 1:
            groups["all"] = Counter({str(standing): count for standing, count in plan.counts.items()})
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
            found += first_lines(lines, most=MAX_REASONS, more=f"--standing {standing}")
    return found


def _totals(plan: Plan, whole: Outlook, cache: Path) -> list[str]:
    from genrec_unlearn_bench.store.inventory import format_bytes

    if not whole.jobs:
        return ["everything that can be run is done" if plan.counts["impossible"] else "everything is done"]
    if whole.unknown == whole.jobs:
        return [f"time: unknown, as no stage of these {counted(whole.jobs, 'job')} is in the cache"]
    time_ = f"time: {duration(whole.seconds)} on one process"
    if whole.processes > 1:
        time_ += f", {duration(whole.at_least)} at best on {whole.processes}"
    lines = [f"{time_}; {duration(whole.longest)} however many there are"]
    if whole.unknown:
        lines.append(f"      without {counted(whole.unknown, 'job')} of {whole.jobs} whose time is unknown")
    place = next((folder for folder in (cache, *cache.absolute().parents) if folder.is_dir()), None)
    left = "" if place is None else f"; {format_bytes(shutil.disk_usage(place).free)} free"
    unknown = f", without {counted(whole.unknown_size, 'job')}" if whole.unknown_size else ""
    return [*lines, f"disk: {format_bytes(whole.size)} more in {cache}{unknown}{left}"]


def _explanation(found: Explanation) -> Output:
    standing = Text(found.standing, style=STYLES[found.standing])
    standing.append(found.reason and f": {found.reason}", style="default")
    lines: list[str | Text] = [found.name, standing, *(f"  {line.strip()}" for line in found.hint.splitlines())]
    if found.result is not None:
        lines.append(f"result: {found.result}")
    names = [f"{step.name} of {step.of}" if step.of else step.name for step in found.steps]
    lines += [""] if names else []
    for name, step in zip(names, found.steps, strict=True):
        was = f", was {step.then[:10]}" if step.then else ""
        state = f"{'there' if step.there else 'to be made'}{was}"
        lines.append(f"  {name:<{max(map(len, names))}}  {step.key[:10]}  {state}")
    if found.difference is not None:
        lines += ["", f"{found.difference.stage}, compared with {found.compared}:"]
        lines += [f"  {field}" for field in found.difference.fields or ("nothing is left of it to compare with",)]
    return Output({**asdict(found), "result": str(found.result) if found.result else None}, lines)


def status(
    grid: Annotated[
        str | None, Argument(help="Name or file of a grid (default: the one active last).", metavar="GRID")
    ] = None,
    by: Annotated[str, Option(help="Count by backbone, task, method or stage.")] = "backbone",
    failed: Annotated[
        bool, Option("--failed", help="Show all failed jobs, with the last lines of their logs.")
    ] = False,
    once: Annotated[bool, Option("--once", help="Print it once and stop; so is what is piped.")] = False,
    every: Annotated[float, Option(help="Seconds between two looks.", min=0.2)] = 2.0,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Show how a sweep stands: jobs by state, what runs where and since when, failures, time left, cells ready.

    On a terminal the table stays and is kept up to date until nothing moves any more, or until Ctrl-C, which ends the
    view and not the sweep.
    """
    from rich.live import Live

    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.state import find_sweep, sweeps
    from genrec_unlearn_bench.grid.status import Axis, sweep_status

    one_of("axis", by, get_args(Axis))
    cache = options.cache_root(cache_dir)
    found = find_sweep(cache, grid)
    others = [] if grid else [other.name for other in sweeps(cache) if other.root != found.root]
    # Jobs that a scheduler has ended cannot write that themselves.
    slurm_states(found)

    def look() -> SweepStatus:
        return sweep_status(found, by=cast("Axis", by), tails=MOST if failed else 0)

    def watch(console: Console) -> None:
        drawn, slurm_time = _drawn(now, others, failed), time.monotonic()
        if once or not console.is_terminal:
            console.print(drawn, soft_wrap=True)
            return
        # The view may be ended; what it showed stays on the terminal.
        with suppress(KeyboardInterrupt), Live(drawn, console=console, auto_refresh=False) as live:
            seen = now
            while seen.moves:
                time.sleep(every)
                if time.monotonic() - slurm_time > SLURM_SECONDS:
                    slurm_states(found)
                    slurm_time = time.monotonic()
                seen = look()
                live.update(_drawn(seen, others, failed), refresh=True)

    now = look()
    return Output({**now.model_dump(mode="json"), "others": others}, [watch])


def running_lines(now: SweepStatus, most: int = MAX_RUNNING) -> list[str]:
    """The jobs that run, one a line."""
    found = []
    for job in now.running:
        where = f"{job.host} {job.place}".strip()
        attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
        late = f" ({job.late})" if job.late else ""
        found.append(f"  {job.job}: {job.stage or 'starting'}, {duration(job.seconds)}{attempt}, {where}{late}")
    return first_lines(found, most=most, more="--json has all")


def _drawn(now: SweepStatus, others: list[str], all_failed: bool) -> RenderableType:
    from genrec_unlearn_bench.grid.status import STATES

    groups = {**now.groups, "all": now.counts} if len(now.groups) > 1 else now.groups
    rows = [(name, *(str(counts[state] or "·") for state in STATES)) for name, counts in groups.items()]
    table = sheet(rows, ("", *STATES), title=f"{now.grid}: jobs", right=STATES)
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
        listed = ["\n".join(_failed_lines(job, whole=all_failed)) for job in own]
        found += listed if all_failed else first_lines(listed, most=MAX_FAILED, more="--failed has all, with logs")
    found += ["", "other sweeps of this cache: " + ", ".join(others)] if others else []
    return Group(table, Text("\n".join(found)))


def _failed_lines(job: FailedJob, *, whole: bool) -> list[str]:
    first, *rest = job.error.splitlines() or [""]
    lines = [*rest, f"log: {job.log}", *(f"| {line}" for line in job.tail)] if whole else []
    return [f"  {job.job}, attempt {job.attempt}: {job.state}: {first}", *(f"    {line}" for line in lines)]


def collect(
    grid: Annotated[
        str, Argument(help="A grid that was run, a grid file, or the name of a ready grid.", metavar="GRID")
    ],
    out: Annotated[
        Path | None, Option(help="Folder for the results (default: collected/<grid>).", metavar="DIR")
    ] = None,
    results_dir: Annotated[
        Path | None, Option(help="Where the results are (default: where they were put).", metavar="DIR")
    ] = None,
    layout: options.Layout = "main",
    format_: options.TableFormat = None,
    metric: options.Metrics = None,
    beam: options.ListBeam = None,
    baseline: options.Baseline = None,
    data_dir: options.DataDir = None,
    tuned_dir: Annotated[Path | None, Option(help="Where the choices of bench tune lie.", metavar="DIR")] = None,
    device: options.GridDevice = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Copy the results of a grid's cells into one folder, say which cells are not there and why, and show the table.

    May be called while the grid runs, and again: what is gathered stays, what is new comes in. With --format, tables
    are written to <out>/tables. Exit code 1 where a cell failed or its result is damaged.
    """
    from genrec_unlearn_bench.cli.leaderboard import give
    from genrec_unlearn_bench.reporting.outputs import FORMATS
    from genrec_unlearn_bench.reporting.results import load_results
    from genrec_unlearn_bench.reporting.selection import Selection
    from genrec_unlearn_bench.submissions.result_set import ResultSet

    formats = options.chosen_formats(format_, Path("tables"), FORMATS)
    with progressing() as progress:
        places = {"results_dir": results_dir, "data_dir": data_dir, "tuned_dir": tuned_dir}
        found, place = _gather(grid, options.cache_root(cache_dir), out, places, device, progress)

    def tables(_: object) -> None:
        there = {cell.place for cell in found.of("there")}
        if not there:
            return
        mine = tuple(result for result in load_results([place]).results if result.place in there)
        report = ResultSet(mine).report(Selection(), layout, named(metric), beam=beam, baseline=baseline)
        folder = place / "tables" if format_ else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        give(report, formats, folder)

    counts = {str(state): count for state, count in found.counts.items()}
    content = {"folder": str(place), "counts": counts, **found.model_dump(mode="json")}
    lines = [
        f"{found.grid}: {len(found.cells)} cells: {', '.join(f'{count} {state}' for state, count in counts.items())}"
    ]
    lines.append(f"gathered in {place}")
    diverged = [cell.cell for cell in found.of("there") if cell.diverged]
    lines += [f"diverged, so not ranked: {', '.join(diverged)}"] if diverged else []
    absent = [cell for cell in found.cells if cell.state != "there"]
    absent.sort(key=lambda cell: cell.state not in ("failed", "damaged", "lost"))
    listed = [f"  {cell.state}: {cell.cell}{': ' + cell.reason if cell.reason else ''}" for cell in absent]
    lines += first_lines(listed, most=MOST, more="collected.json has all")
    return Output(content, [*lines, tables], exit_code=int(bool(found.of("failed", "damaged"))))


def _gather(
    grid: str, cache: Path, out: Path | None, places: dict[str, Any], device: str | None, progress: Progress
) -> tuple[Collected, Path]:
    """Gather the grid's cells, with the sweep's own places where the call names none."""
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.collect import collect as gather
    from genrec_unlearn_bench.grid.expand import expand, graph_builder
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.reader import read_grid
    from genrec_unlearn_bench.grid.state import find_sweep
    from genrec_unlearn_bench.store.store import StageStore

    try:
        sweep = find_sweep(cache, grid)
        # Jobs that a scheduler has ended cannot write that themselves.
        slurm_states(sweep)
    except UsageError:
        # Never swept: its cells may have been run one by one. A wrong name is reported by whoever reads the grid.
        sweep = None
    facts = sweep.facts() if sweep is not None else None
    usual = {"results_dir": Path("results"), "tuned_dir": Path("tuned"), "data_dir": None}
    kept = {name: Path(place) for name in places if (place := getattr(facts, name, ""))}
    places = usual | kept | {name: place for name, place in places.items() if place is not None}
    swept = sweep.root / "grid.yaml" if sweep is not None else Path(grid)
    spec = read_grid(str(swept) if swept.is_file() and not Path(grid).is_file() else grid, places["data_dir"])
    cells = expand(spec, **places, device=device or getattr(facts, "device", "") or None)
    plan = make_plan(cells, graph_builder(), StageStore(cache, progress), progress)
    place = out or Path("collected") / spec.name
    return gather(spec.name, plan.cells, sweep, place, progress), place
