"""``bench collect GRID``: what there is of a grid, in one folder and one table, at any time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrec_unlearn_bench.cli.console import handled, print_json, progressing
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug
from genrec_unlearn_bench.cli.results import Baseline, Beam, Format, Layout, Metrics
from genrec_unlearn_bench.errors import UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.collect import Collected
    from genrec_unlearn_bench.progress import Progress

__all__ = ["collect"]

MOST = 12
"""Cells that are not there, listed one by one."""

Grid = Annotated[
    str, typer.Argument(help="A grid that was swept, a grid file, or the name of a ready grid.", metavar="GRID")
]
Out = Annotated[Path | None, typer.Option(help="Folder for the results (default: collected/<grid>).", metavar="DIR")]
Results = Annotated[
    Path | None,
    typer.Option("--results-dir", help="Where the results are (default: where the sweep put them).", metavar="DIR"),
]
Tuned = Annotated[Path | None, typer.Option("--tuned-dir", help="Where the choices of bench tune lie.", metavar="DIR")]
Device = Annotated[str | None, typer.Option(help="As the sweep was called (default: what it says of itself).")]


@handled
def collect(
    grid: Grid,
    out: Out = None,
    results_dir: Results = None,
    layout: Layout = "main",
    format_: Format = None,
    metric: Metrics = None,
    beam: Beam = None,
    baseline: Baseline = None,
    data_dir: DataDir = None,
    tuned_dir: Tuned = None,
    device: Device = None,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Copy the results of a grid's cells into one folder, say which cells are not there and why, and show the table.

    May be called while the grid runs, and again: what is gathered stays, what is new comes in. With --format, tables
    are written to <out>/tables. Exit code 1 where a cell failed or its result is damaged.
    """
    from genrec_unlearn_bench.cli.leaderboard import known_formats
    from genrec_unlearn_bench.store.store import default_cache

    known_formats(format_, Path("tables"))
    cache = cache_dir or default_cache()
    with progressing() as progress:
        places = {"results_dir": results_dir, "data_dir": data_dir, "tuned_dir": tuned_dir}
        found, place = _gather(grid, cache, out, places, device, progress)
    if as_json:
        counts = {str(state): count for state, count in found.counts.items()}
        print_json({"folder": str(place), "counts": counts, **found.model_dump(mode="json")})
    else:
        _summarise(found, place)
        if found.of("there"):
            _tables(found, place, layout, format_, metric, beam, baseline)
    if found.of("failed", "damaged"):
        raise typer.Exit(1)


def _gather(
    grid: str, cache: Path, out: Path | None, places: dict[str, Any], device: str | None, progress: Progress
) -> tuple[Collected, Path]:
    """Gather the grid's cells, with the sweep's own places where the call names none."""
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.collect import collect as gather
    from genrec_unlearn_bench.grid.expand import expand, graph_builder
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.spec import read_grid
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
    kept = {name: Path(place) for name in places if (place := getattr(facts, name, ""))}
    places = (
        {"results_dir": Path("results"), "tuned_dir": Path("tuned"), "data_dir": None}
        | kept
        | {name: place for name, place in places.items() if place is not None}
    )
    swept = sweep.root / "grid.yaml" if sweep is not None else Path(grid)
    spec = read_grid(str(swept) if swept.is_file() and not Path(grid).is_file() else grid, places["data_dir"])
    cells = expand(spec, **places, device=device or getattr(facts, "device", "") or None)
    plan = make_plan(cells, graph_builder(), StageStore(cache, progress), progress)
    place = out or Path("collected") / spec.name
    return gather(spec.name, plan.cells, sweep, place, progress), place


def _summarise(found: Collected, place: Path) -> None:
    counts = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    typer.echo(f"{found.grid}: {len(found.cells)} cells: {counts}")
    typer.echo(f"gathered in {place}")
    diverged = [cell.cell for cell in found.of("there") if cell.diverged]
    if diverged:
        typer.echo(f"diverged, so not ranked: {', '.join(diverged)}")
    absent = [cell for cell in found.cells if cell.state != "there"]
    for cell in sorted(absent, key=lambda cell: cell.state not in ("failed", "damaged", "lost"))[:MOST]:
        typer.echo(f"  {cell.state}: {cell.cell}{': ' + cell.reason if cell.reason else ''}")
    if len(absent) > MOST:
        typer.echo(f"  and {len(absent) - MOST} more (collected.json has all)")


def _tables(
    found: Collected,
    place: Path,
    layout: str,
    format_: str | None,
    metric: list[str] | None,
    beam: int | None,
    baseline: str | None,
) -> None:
    """The leaderboard's tables, of what was gathered for these cells alone."""
    from genrec_unlearn_bench.cli.leaderboard import give, known_formats
    from genrec_unlearn_bench.config import named
    from genrec_unlearn_bench.reporting import selection
    from genrec_unlearn_bench.reporting.layouts import find_layout
    from genrec_unlearn_bench.reporting.outputs import make_report
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.reporting.results import load_results

    protocol = statistics_protocol()
    mine = {cell.place for cell in found.of("there")}
    results = tuple(result for result in load_results([place]).results if result.place in mine)
    columns = named(metric)
    wanted = selection.Selection()
    report = make_report(
        selection.selected_board(results, protocol, wanted),
        selection.chosen_layout(columns, beam=beam or protocol.beam) if columns else find_layout(layout),
        protocol,
        kinds=selection.task_kinds(results),
        variant_of=selection.variants(),
        wanted=wanted,
        beam=beam,
        baseline=baseline,
        compare_reported=False,
    )
    tables = place / "tables" if format_ else None
    if tables is not None:
        tables.mkdir(parents=True, exist_ok=True)
    give(report, known_formats(format_, tables), tables, standalone=False, bib=False)
