"""``bench grid collect``: what there is of a grid, in one folder and one table, at any time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, first_lines
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress_display import progressing

if TYPE_CHECKING:
    from rich.console import Console

    from genrec_unlearn_bench.grid.status import Collected
    from genrec_unlearn_bench.progress import Progress

MOST = 12
"""Cells that are not there, listed one by one."""

Grid = Annotated[str, Argument(help="A grid that was run, a grid file, or the name of a ready grid.", metavar="GRID")]
Out = Annotated[Path | None, Option(help="Folder for the results (default: collected/<grid>).", metavar="DIR")]
ResultsDir = Annotated[Path | None, Option(help="Where the results are (default: where they were put).", metavar="DIR")]
TunedDir = Annotated[Path | None, Option(help="Where the choices of bench tune lie.", metavar="DIR")]


def collect(
    grid: Grid,
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
    from genrec_unlearn_bench.store.store import default_cache
    from genrec_unlearn_bench.submissions.result_set import ResultSet

    with progressing() as progress:
        places = {"results_dir": results_dir, "data_dir": data_dir, "tuned_dir": tuned_dir}
        found, place = _gather(grid, cache_dir or default_cache(), out, places, device, progress)

    def table(console: Console) -> None:
        there = {cell.place for cell in found.of("there")}
        if there:
            mine = tuple(result for result in load_results([place]).results if result.place in there)
            report = ResultSet(mine).report(Selection())
            draw(console, report.tables, across=report.across)

    counts = {str(state): count for state, count in found.counts.items()}
    content = {"folder": str(place), "counts": counts, **found.model_dump(mode="json")}
    return Output(content, [*_summary(found, place), table], exit_code=int(bool(found.of("failed", "damaged"))))


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


def _summary(found: Collected, place: Path) -> list[str]:
    counts = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    lines = [f"{found.grid}: {len(found.cells)} cells: {counts}", f"gathered in {place}"]
    diverged = [cell.cell for cell in found.of("there") if cell.diverged]
    lines += [f"diverged, so not ranked: {', '.join(diverged)}"] if diverged else []
    absent = [cell for cell in found.cells if cell.state != "there"]
    absent.sort(key=lambda cell: cell.state not in ("failed", "damaged", "lost"))
    listed = [f"  {cell.state}: {cell.cell}{': ' + cell.reason if cell.reason else ''}" for cell in absent]
    return lines + first_lines(listed, most=MOST, more="collected.json has all")
