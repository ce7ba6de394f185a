"""``bench plan``: what of a grid is done, missing, stale or impossible, and what the rest will take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug, ResultsDir, TunedDir
from genrec_unlearn_bench.errors import UnknownName

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.explanation import Explanation
    from genrec_unlearn_bench.grid.outlook import Outlook
    from genrec_unlearn_bench.grid.plan import Plan, PlannedCell, Standing

__all__ = ["plan"]

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

    Nothing is computed, written or downloaded. Times are those that stages like them took before, in this cache or else
    by the results at hand (RESULTS_DIR, and those that a checkout of the suite brings along).
    """
    from genrec_unlearn_bench.grid.expand import expand
    from genrec_unlearn_bench.grid.explanation import explain_cell, find_cell
    from genrec_unlearn_bench.grid.outlook import outlook
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.recorded_stages import known_results
    from genrec_unlearn_bench.grid.spec import read_grid
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    wanted = _known_standing(standing)
    spec = read_grid(grid, data_dir)
    asked = expand(spec, data_dir=data_dir, results_dir=results_dir, tuned_dir=tuned_dir, device=device)
    cache = cache_dir or default_cache()
    store = StageStore(cache)
    if explain is not None:
        _explain(explain_cell(find_cell(explain, asked), store), as_json=as_json)
        return
    with progressing() as progress:
        found = make_plan(asked, store, progress, known_results(results_dir))
    whole = outlook(found, processes)
    listed = [cell for cell in found.cells if wanted in (None, cell.standing)]
    if as_json:
        print_json(_document(spec.name, found, whole, listed))
        return
    _show(spec.name, found, whole, cache)
    if cells or wanted is not None:
        _list(listed)


def _known_standing(text: str | None) -> Standing | None:
    """The standing of that name. Raises UnknownName."""
    from genrec_unlearn_bench.grid.standing import Standing

    if text is not None and text not in get_args(Standing):
        raise UnknownName("standing", text, get_args(Standing))
    return cast("Standing | None", text)


def _show(name: str, found: Plan, whole: Outlook, cache: Path) -> None:
    from genrec_unlearn_bench.cli.plan_table import counts_table, legend, matrix, reasons, shared, totals

    console = stdout()
    console.print(counts_table(name, found))
    table = matrix(found, console.width)
    if table is not None:
        console.print(table)
        console.print(legend())
    for line in [*reasons(found), *shared(found, console.width), *totals(found, whole, cache)]:
        console.print(line, soft_wrap=True)


def _list(listed: list[PlannedCell]) -> None:
    from genrec_unlearn_bench.cli.plan_table import cell_line

    console = stdout()
    console.print("")
    for planned in listed:
        console.print(cell_line(planned), soft_wrap=True)


def _explain(found: Explanation, *, as_json: bool) -> None:
    from dataclasses import asdict

    from genrec_unlearn_bench.cli.plan_table import explanation

    if as_json:
        print_json({**asdict(found), "result": str(found.result) if found.result else None})
        return
    console = stdout()
    for line in explanation(found):
        console.print(line, soft_wrap=True)


def _document(name: str, found: Plan, whole: Outlook, listed: list[PlannedCell]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "grid": name,
        "counts": dict(found.counts),
        "outlook": asdict(whole),
        "shared": [
            {**_costs(stage), "name": stage.name, "until": stage.until, "cells": len(stage.cells), "needs": stage.needs}
            for stage in found.shared
        ],
        "cells": [
            {
                "name": planned.cell.name,
                "standing": planned.standing,
                "reason": planned.reason,
                "hint": planned.hint,
                "result": str(planned.result) if planned.result else None,
                "needs": planned.needs,
                **_costs(planned),
            }
            for planned in listed
        ],
    }


def _costs(one: Any) -> dict[str, Any]:
    return {
        "seconds": one.seconds,
        "size": one.size,
        "memory_mib": one.memory_mib,
        "alike": one.alike,
        "machines": sorted(one.machines),
    }
