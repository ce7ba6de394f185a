"""``bench plan``: what of a grid is done, missing, stale or impossible, and what the rest will take."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrec_unlearn_bench.cli.console import duration, handled, print_json, progressing, stdout
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug, ResultsDir, TunedDir
from genrec_unlearn_bench.errors import UnknownName

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from genrec_unlearn_bench.grid.plan import Explanation, Plan, PlannedCell
    from genrec_unlearn_bench.grid.schedule import Outlook

__all__ = ["plan"]

STYLES = {"done": "green", "missing": "yellow", "stale": "magenta", "impossible": "red"}
SIGNS = {"done": "✓", "missing": "·", "stale": "~", "impossible": "✗"}
MAX_METHODS = 60
MAX_REASONS = 8
MAX_SHARED = 12

Grid = Annotated[str, typer.Argument(help="A grid's file, or the name of one that ships (bench ls grids).")]
Explain = Annotated[
    str | None,
    typer.Option(help="Explain one cell: its stages, and the field that makes it differ.", metavar="CELL"),
]
Cells = Annotated[bool, typer.Option("--cells", help="List every cell with its standing and the reason.")]
OfStanding = Annotated[
    str | None, typer.Option("--standing", help="List the cells that are done, missing, stale or impossible.")
]
Device = Annotated[
    str | None, typer.Option(help="auto, cpu, cuda or cuda:N (default: what the grid says).", show_default=False)
]
Processes = Annotated[int, typer.Option(help="Processes to tell the time for.", min=1)]


@handled
def plan(
    grid: Grid,
    explain: Explain = None,
    cells: Cells = False,
    standing: OfStanding = None,
    processes: Processes = 1,
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    results_dir: ResultsDir = Path("results"),
    tuned_dir: TunedDir = Path("tuned"),
    device: Device = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what of a grid is done, missing, stale or impossible and why, shared stages, time and disk.

    Nothing is computed, written or downloaded. Times are the medians of stages of the same configuration in this cache.
    """
    from genrec_unlearn_bench.grid.expand import expand, find_cell, graph_builder
    from genrec_unlearn_bench.grid.plan import explain_cell, make_plan
    from genrec_unlearn_bench.grid.schedule import outlook
    from genrec_unlearn_bench.grid.spec import read_grid
    from genrec_unlearn_bench.store.inventory import old_store_notice
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    if standing is not None and standing not in STYLES:
        raise UnknownName("standing", standing, list(STYLES))
    spec = read_grid(grid, data_dir)
    found = expand(spec, data_dir=data_dir, results_dir=results_dir, tuned_dir=tuned_dir, device=device)
    cache = cache_dir or default_cache()
    build, store = graph_builder(), StageStore(cache)
    if explain is not None:
        explained = explain_cell(find_cell(explain, found), build, store)
        _show_explanation(explained, as_json=as_json)
        return
    with progressing() as progress:
        notice = old_store_notice(cache)
        if notice:
            progress.info(notice)
        planned = make_plan(found, build, store, progress)
    whole = outlook(planned, processes)
    listed = [cell for cell in planned.cells if standing in (None, cell.standing)]
    if as_json:
        print_json(_document(spec.name, planned, whole, listed))
        return
    console = stdout()
    console.print(_counts_table(spec.name, planned))
    table = _matrix(planned, console.width)
    if table is not None:
        console.print(table)
    for line in [*_reasons(planned), *_shared(planned, console.width), *_totals(planned, whole, cache)]:
        console.print(line, soft_wrap=True)
    if cells or standing is not None:
        console.print("")
        for cell in listed:
            console.print(_cell_line(cell), soft_wrap=True)


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


def _counts_table(name: str, plan: Plan) -> Table:
    """Backbones by standing."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"{name}: {_count(len(plan.cells), 'cell')}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1)
    )
    table.add_column("", no_wrap=True)
    for standing in STYLES:
        table.add_column(Text(standing, style=STYLES[standing]), justify="right")
    table.add_column("cells", justify="right")
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for planned in plan.cells:
        groups[planned.cell.request.backbone][planned.standing] += 1
    if len(groups) > 1:
        groups["all"] = Counter({str(standing): count for standing, count in plan.counts.items()})
    for group, counts in groups.items():
        numbers = [Text(str(counts[one]) if counts[one] else "·", style=STYLES[one]) for one in STYLES]
        table.add_row(group, *numbers, str(counts.total()))
    return table


def _matrix(plan: Plan, width: int) -> Table | None:
    """Methods by backbones, with counts by standing; None where it would not fit or show nothing new."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), caption_justify="left")
    table.caption = Text("   ").join(Text(f"{sign} {name}", style=STYLES[name]) for name, sign in SIGNS.items())
    backbones = list(dict.fromkeys(planned.cell.request.backbone for planned in plan.cells))
    for name in ("method", *backbones):
        table.add_column(name, no_wrap=True)
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for planned in plan.cells:
        method = str(planned.cell.axes.get("method") or planned.cell.request.method)
        counts[method][planned.cell.request.backbone, planned.standing] += 1
    for method, row in counts.items():
        signs = [
            [Text(f"{sign}{row[one, name]}", style=STYLES[name]) for name, sign in SIGNS.items() if row[one, name]]
            for one in backbones
        ]
        table.add_row(method, *(Text(" ").join(each) for each in signs))
    needed = stdout().measure(table).maximum
    return table if 1 < len(counts) <= MAX_METHODS and needed <= width else None


def _reasons(plan: Plan) -> list[str | Text]:
    """Why cells are impossible, stale or missing; equal reasons in one line."""
    from rich.text import Text

    found: list[str | Text] = []
    for standing in ("impossible", "stale", "missing"):
        groups = Counter((cell.reason, cell.hint) for cell in plan.cells if cell.standing == standing)
        if not groups:
            continue
        found += ["", Text(f"{standing}:", style=STYLES[standing])]
        for (reason, hint), count in groups.most_common(MAX_REASONS):
            found.append(f"  {_count(count, 'cell')}: {reason}")
            found += [f"      {line.strip()}" for line in hint.splitlines()]
        found += _more(len(groups), MAX_REASONS, f"reasons, with --standing {standing}")
    return found


def _shared(plan: Plan, width: int) -> list[str]:
    """Stages to be made that cells share."""
    if not plan.shared:
        return []
    found = ["", f"shared stages to be made: {len(plan.shared)}"]
    for stage in plan.shared[:MAX_SHARED]:
        time = "unknown" if stage.seconds is None else duration(stage.seconds)
        indent = max(40, min(width, 100) - 34)
        found.append(f"{f'  {stage.name}':<{indent}} {_count(len(stage.cells), 'cell'):>11}  {time:>14}")
    return [*found, *_more(len(plan.shared), MAX_SHARED, "with --json")]


def _totals(plan: Plan, whole: Outlook, cache: Path) -> list[str]:
    """Time and disk."""
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


def _show_explanation(found: Explanation, *, as_json: bool) -> None:
    from rich.text import Text

    if as_json:
        print_json({**asdict(found), "result": str(found.result) if found.result else None})
        return
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
    console = stdout()
    for line in lines:
        console.print(line, soft_wrap=True)


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _more(count: int, most: int, what: str) -> Sequence[str]:
    return [f"  … and {count - most} more {what}"] if count > most else []
