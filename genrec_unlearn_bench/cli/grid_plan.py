"""``bench grid plan``: what of a grid is done, missing, stale or impossible, and what the rest will take."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, first_lines, sheet
from genrec_unlearn_bench.progress_display import duration, open_store
from genrec_unlearn_bench.reporting.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

    from genrec_unlearn_bench.cli.command import Part
    from genrec_unlearn_bench.grid.plan import Plan, PlannedCell
    from genrec_unlearn_bench.grid.spec import Job

STYLES = {"done": "green", "missing": "yellow", "stale": "magenta", "impossible": "red"}
MAX_REASONS = 8
MAX_SHARED = 12

Explain = Annotated[str | None, Option(help="One cell: its stages, and what makes it differ.", metavar="CELL")]
Cells = Annotated[bool, Option("--cells", help="List every cell with its standing and the reason.")]


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
    shared = [
        job.model_dump(include={"name", "until", "seconds", "size", "needs"}) | {"cells": len(job.cells)}
        for job in planned.shared
    ]
    shown = [_fields(cell) for cell in planned.cells]
    return Output(
        {"grid": spec.name, "counts": planned.counts, "outlook": outlook, "shared": shared, "cells": shown}, parts
    )


def _fields(planned: PlannedCell) -> dict[str, Any]:
    names = ("standing", "reason", "hint", "seconds", "size", "needs")
    result = str(planned.result) if planned.result else None
    return {"name": planned.cell.name, "result": result, **{name: getattr(planned, name) for name in names}}


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
    from rich.text import Text

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
    times = ["unknown" if job.seconds is None else duration(job.seconds) for job in jobs]
    lines = [f"  {job.name}: {counted(len(job.cells), 'cell')}, {took}" for job, took in zip(jobs, times, strict=True)]
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
    from rich.text import Text

    line = Text(f"{planned.standing:<10} ", style=STYLES[planned.standing])
    time = f" ({duration(planned.seconds)})" if planned.waits and planned.seconds else ""
    behind = planned.reason or (str(planned.result) if planned.result else "")
    line.append(f"{planned.cell.name}{time}: {behind}" if behind else f"{planned.cell.name}{time}", style="default")
    return line


def _explanation(found: dict[str, Any]) -> Output:
    from rich.text import Text

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
