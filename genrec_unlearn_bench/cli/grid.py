"""``bench grid plan``, ``status`` and ``collect``: what of a grid is done and what is not, before, during and after."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, Part, first_lines, sheet
from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.progress_display import duration, open_store
from genrec_unlearn_bench.reporting.wording import counted

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.plan import Plan
    from genrec_unlearn_bench.grid.status import Collected, SweepStatus

STYLES = {"done": "green", "missing": "yellow", "impossible": "red"}
MOST = 12
"""Lines of one kind; how many more there are is said."""

Explain = Annotated[str | None, Option(help="One cell: its stages, and what makes it differ.", metavar="CELL")]
OfStatus = Annotated[str | None, Option("--status", help="List cells that are done, missing or impossible.")]
Sweep = Annotated[str | None, Argument(help="Name or file of a grid (default: the one active last).", metavar="GRID")]
Failed = Annotated[bool, Option("--failed", help="Show all failed jobs, with the last lines of their logs.")]
Out = Annotated[Path | None, Option(help="Folder for the results (default: collected/<grid>).", metavar="DIR")]
ResultsDir = Annotated[Path | None, Option(help="Where the results are (default: where they were put).", metavar="DIR")]
TunedDir = Annotated[Path | None, Option(help="Where the choices of bench tune lie.", metavar="DIR")]


def plan(
    grid: options.Grid,
    explain: Explain = None,
    status: OfStatus = None,
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    results_dir: options.ResultsDir = Path("results"),
    tuned_dir: options.TunedDir = Path("tuned"),
    device: options.GridDevice = None,
) -> Output:
    """Show what of a grid is done, missing or impossible and why, shared stages and time.

    Nothing is computed, written or downloaded. Times are the medians of stages of the same configuration in this cache.
    """
    from genrec_unlearn_bench.grid.expand import expand, find_cell, graph_builder, read_grid
    from genrec_unlearn_bench.grid.plan import explain_cell, make_plan

    if status is not None:
        one_of("status", status, STYLES)
    spec = read_grid(grid, data_dir)
    found = expand(spec, data_dir=data_dir, results_dir=results_dir, tuned_dir=tuned_dir, device=device)
    build = graph_builder()
    with open_store(cache_dir) as (store, progress):
        if explain is not None:
            return _explanation(explain_cell(find_cell(explain, found), build, store))
        planned = make_plan(found, build, store, progress)
    known = [job.seconds for job in planned.jobs if job.seconds is not None]
    outlook = {"jobs": len(planned.jobs), "unknown": len(planned.jobs) - len(known), "seconds": sum(known)}
    shared = [
        job.model_dump(include={"name", "until", "seconds", "needs"}) | {"cells": len(job.cells)}
        for job in planned.shared
    ]
    names = ("status", "reason", "hint", "seconds", "needs")
    listed = [cell for cell in planned.cells if status in (None, cell.status)]
    cells = [
        {name: getattr(cell, name) for name in names}
        | {"name": cell.cell.name, "result": str(cell.result) if cell.result else None}
        for cell in listed
    ]
    content = {"grid": spec.name, "counts": planned.counts, "outlook": outlook, "shared": shared, "cells": cells}
    lines = [
        Text.assemble((f"{one.status:<10} ", STYLES[one.status]), f"{one.cell.name}: {one.reason or one.result}")
        for one in listed
    ]
    lines = lines or [Text(f"no cell is {status}")]
    return Output(content, [*_plan_parts(spec.name, planned, outlook), *(lines if status else [])])


def _plan_parts(name: str, planned: Plan, outlook: dict[str, Any]) -> list[Part]:
    """Cells by backbone and by method, each by status; why some cannot be run; shared stages; time."""
    rows: list[tuple[str, ...]] = []
    for axis in ("backbone", "method"):
        pairs = Counter((str(cell.cell.axes.get(axis, "")), str(cell.status)) for cell in planned.cells)
        rows += [
            (f"{axis} {group}", *(str(pairs[group, status] or "·") for status in STYLES))
            for group in dict.fromkeys(group for group, _ in pairs)
        ]
    rows.append(("all", *(str(count or "·") for count in planned.counts.values())))
    table = sheet(rows, ("", *STYLES), title=f"{name}: {counted(len(planned.cells), 'cell')}", right=[*STYLES])
    for column, style in zip(table.columns[1:], STYLES.values(), strict=True):
        column.style = column.header_style = style
    parts: list[Part] = [table]
    for status in ("impossible", "missing"):
        groups = Counter((cell.reason, cell.hint) for cell in planned.cells if cell.status == status)
        lines = [
            "\n      ".join([f"  {counted(count, 'cell')}: {reason}", *map(str.strip, hint.splitlines())])
            for (reason, hint), count in groups.most_common()
        ]
        if lines:
            title = Text(f"{status}:", style=STYLES[status])
            parts += ["", title, *first_lines(lines, most=MOST, more=f"--status {status}")]
    if planned.shared:
        lines = [f"  {job.name}: {counted(len(job.cells), 'cell')}, {_time(job.seconds)}" for job in planned.shared]
        title_ = f"shared stages to be made: {len(lines)}"
        parts += ["", title_, *first_lines(lines, most=MOST, more="--json")]
    jobs, unknown = outlook["jobs"], outlook["unknown"]
    if not jobs:
        done = planned.counts["done"]
        return [*parts, "", "everything that can be run is done" if done else "nothing of it can be run"]
    time = "unknown" if unknown and not outlook["seconds"] else f"{_time(outlook['seconds'])} on one process"
    return [
        *parts,
        "",
        f"time: {time}" + (f" (nothing is known of {unknown:,} of {counted(jobs, 'job')})" * bool(unknown)),
    ]


def _explanation(found: dict[str, Any]) -> Output:
    lines = [found["name"], f"{found['status']}: {found['reason'] or found['result']}"]
    lines += [f"  {line.strip()}" for line in found["hint"].splitlines()]
    for step in found["steps"]:
        name = f"{step['name']} of {step['of']}" if step["of"] else step["name"]
        lines.append(f"  {name:<24}  {step['key'][:10]}  {'there' if step['there'] else 'to be made'}")
    if (difference := found["difference"]) is not None:
        lines += ["", f"{difference['stage']}, compared with {difference['compared']}:"]
        lines += [f"  {field}" for field in difference["fields"]]
    return Output(found, lines)


def _time(seconds: float | None) -> str:
    return "unknown" if seconds is None else duration(seconds)


def status(grid: Sweep = None, failed: Failed = False, cache_dir: options.CacheDir = None) -> Output:
    """Show how a sweep stands: jobs by state, what runs where and since when, failures, time left, cells ready."""
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.state import find_sweep, sweeps
    from genrec_unlearn_bench.grid.status import sweep_status

    cache = options.cache_root(cache_dir)
    found = find_sweep(cache, grid)
    others = [] if grid else [other.root.name for other in sweeps(cache) if other.root != found.root]
    # Jobs that a scheduler has ended cannot write that themselves.
    slurm_states(found)
    now = sweep_status(found)
    return Output({**now.model_dump(mode="json"), "others": others}, _lines(now, others, failed))


def running_lines(now: SweepStatus) -> list[str]:
    """The jobs that run, one a line."""
    found = []
    for job in now.running:
        where = f"{job.host} {job.place}".strip()
        attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
        late = f" ({job.late})" if job.late else ""
        found.append(f"  {job.job}: {job.stage or 'starting'}, {duration(job.seconds)}{attempt}, {where}{late}")
    return first_lines(found, most=MOST, more="--json has all")


def _lines(now: SweepStatus, others: list[str], all_failed: bool) -> list[str]:
    left = "" if now.seconds_left is None else f", about {duration(now.seconds_left)} left"
    found = [
        f"{now.grid}: " + ", ".join(f"{count} {state}" for state, count in now.counts.items() if count),
        f"cells ready: {now.ready} of {now.cells}{left}",
    ]
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
        heads = first_lines([head for head, *_ in listed], most=MOST, more="--failed has all, with logs")
        found += [line for lines in listed for line in lines] if all_failed else heads
    return [*found, "", "other sweeps of this cache: " + ", ".join(others)] if others else found


def failed_lines(job: str, how: str, error: str, attempts: int, log: str, tail: Sequence[str]) -> list[str]:
    """A failed job with the end of its log."""
    first, *rest = error.splitlines() or [""]
    behind = [*rest, f"log: {log}", *(f"| {line}" for line in tail)]
    return [f"  {job}, attempt {attempts}: {how}: {first}", *(f"    {line}" for line in behind)]


def collect(
    grid: options.Grid,
    out: Out = None,
    results_dir: ResultsDir = None,
    data_dir: options.DataDir = None,
    tuned_dir: TunedDir = None,
    device: options.GridDevice = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Copy the results of a grid's cells into one folder, and say which cells are not there and why.

    May be called while the grid runs, and again: what is gathered stays, what is new comes in. Tables come from bench
    leaderboard --results-dir with that folder. Exit code 1 where a cell failed or its result is damaged.
    """
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.expand import expand, graph_builder, read_grid
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.spec import find_grid, read_content
    from genrec_unlearn_bench.grid.state import SweepFolder
    from genrec_unlearn_bench.grid.status import collect as gather

    with open_store(cache_dir) as (store, progress):
        # A grid that was run goes by its name, too.
        file = SweepFolder.of(store.root, grid).facts().file or grid
        sweep = SweepFolder.of(store.root, str(read_content(find_grid(file)).get("name")))
        # Jobs that a scheduler has ended cannot write that themselves.
        slurm_states(sweep)
        facts = sweep.facts()
        places: dict[str, Any] = {
            "results_dir": results_dir or Path(facts.results_dir or "results"),
            "tuned_dir": tuned_dir or Path(facts.tuned_dir or "tuned"),
            "data_dir": data_dir or (Path(facts.data_dir) if facts.data_dir else None),
        }
        spec = read_grid(file, places["data_dir"])
        cells = expand(spec, **places, device=device or facts.device or None)
        plan = make_plan(cells, graph_builder(), store, progress)
        place = out or Path("collected") / spec.name
        found = gather(spec.name, plan.cells, sweep, place, progress)
    content = {"folder": str(place), "counts": found.counts, **found.model_dump(mode="json")}
    return Output(content, _summary(found, place), exit_code=int(bool(found.of("failed", "damaged"))))


def _summary(found: Collected, place: Path) -> list[str]:
    counts = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    lines = [f"{found.grid}: {len(found.cells)} cells: {counts}"]
    diverged = [cell.cell for cell in found.of("there") if cell.diverged]
    lines += [f"diverged, so not ranked: {', '.join(diverged)}"] if diverged else []
    absent = [cell for cell in found.cells if cell.state != "there"]
    absent.sort(key=lambda cell: cell.state not in ("failed", "damaged", "lost"))
    listed = [f"  {cell.state}: {cell.cell}{': ' + cell.reason if cell.reason else ''}" for cell in absent]
    lines += first_lines(listed, most=MOST, more="collected.json has all")
    return [*lines, *([f"tables: bench leaderboard --results-dir {place}"] if found.of("there") else [])]
