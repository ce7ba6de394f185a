"""``bench grid plan``: what of a grid is done, missing, stale or impossible, and what the rest will take."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, sheet
from genrec_unlearn_bench.cli.console import duration, first_lines, open_store
from genrec_unlearn_bench.config import one_of

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from genrec_unlearn_bench.cli.command import Part
    from genrec_unlearn_bench.grid.plan import Explanation, Outlook, Plan, PlannedCell

STYLES = {"done": "green", "missing": "yellow", "stale": "magenta", "impossible": "red"}
MAX_REASONS = 8
MAX_SHARED = 12

Explain = Annotated[str | None, Option(help="One cell: its stages, and what makes it differ.", metavar="CELL")]
Cells = Annotated[bool, Option("--cells", help="List every cell with its standing and the reason.")]
OfStanding = Annotated[str | None, Option("--standing", help="List cells that are done, missing, stale or impossible.")]
Processes = Annotated[int, Option(help="Processes to tell the time for.", min=1)]


def plan(
    grid: options.Grid,
    explain: Explain = None,
    cells: Cells = False,
    standing: OfStanding = None,
    processes: Processes = 1,
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
    parts: list[Part] = [
        *_counts_tables(spec.name, planned),
        *_reasons(planned),
        *_shared(planned),
        *_totals(planned, whole, store.root),
    ]
    if cells or standing is not None:
        parts += ["", *map(_cell_line, listed)]
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
            "standing": cell.standing,
            "reason": cell.reason,
            "hint": cell.hint,
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
    tables[0].title = f"{name}: {_count(len(plan.cells), 'cell')}"
    return tables if tables[1].row_count > 1 else tables[:1]


def _reasons(plan: Plan) -> list[str | Text]:
    from rich.text import Text

    found: list[str | Text] = []
    for standing in ("impossible", "stale", "missing"):
        groups = Counter((cell.reason, cell.hint) for cell in plan.cells if cell.standing == standing)
        if groups:
            lines = [
                "\n      ".join([f"  {_count(count, 'cell')}: {reason}", *map(str.strip, hint.splitlines())])
                for (reason, hint), count in groups.most_common()
            ]
            found += ["", Text(f"{standing}:", style=STYLES[standing])]
            found += first_lines(lines, most=MAX_REASONS, more=f"--standing {standing}")
    return found


def _shared(plan: Plan) -> list[str]:
    if not plan.shared:
        return []
    lines = []
    for stage in plan.shared:
        time = "unknown" if stage.seconds is None else duration(stage.seconds)
        lines.append(f"  {stage.name}: {_count(len(stage.cells), 'cell')}, {time}")
    return ["", f"shared stages to be made: {len(plan.shared)}", *first_lines(lines, most=MAX_SHARED, more="--json")]


def _totals(plan: Plan, whole: Outlook, cache: Path) -> list[str]:
    from genrec_unlearn_bench.store.inventory import format_bytes

    if not whole.jobs:
        return ["", "everything that can be run is done" if plan.counts["impossible"] else "everything is done"]
    if whole.unknown == whole.jobs:
        return ["", f"time: unknown, as no stage of these {_count(whole.jobs, 'job')} is in the cache"]
    time = f"time: {duration(whole.seconds)} on one process"
    if whole.processes > 1:
        time += f", {duration(whole.at_least)} at best on {whole.processes}"
    lines = ["", f"{time}; {duration(whole.longest)} however many there are"]
    if whole.unknown:
        lines.append(f"      without {_count(whole.unknown, 'job')} of {whole.jobs} whose time is unknown")
    place = next((folder for folder in (cache, *cache.absolute().parents) if folder.is_dir()), None)
    left = "" if place is None else f"; {format_bytes(shutil.disk_usage(place).free)} free"
    unknown = f", without {_count(whole.unknown_size, 'job')}" if whole.unknown_size else ""
    return [*lines, f"disk: {format_bytes(whole.size)} more in {cache}{unknown}{left}"]


def _cell_line(planned: PlannedCell) -> Text:
    from rich.text import Text

    line = Text(f"{planned.standing:<10} ", style=STYLES[planned.standing])
    time = f" ({duration(planned.seconds)})" if planned.waits and planned.seconds else ""
    behind = planned.reason or (str(planned.result) if planned.result else "")
    line.append(f"{planned.cell.name}{time}: {behind}" if behind else f"{planned.cell.name}{time}", style="default")
    return line


def _explanation(found: Explanation) -> Output:
    from rich.text import Text

    standing = Text(found.standing, style=STYLES[found.standing])
    if found.reason:
        standing.append(f": {found.reason}", style="default")
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


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
