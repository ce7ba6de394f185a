"""``bench grid collect``: what there is of a grid, in one folder, at any time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, first_lines
from genrec_unlearn_bench.progress_display import open_store

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.status import Collected

MOST = 12
"""Cells that are not there, listed one by one."""

Out = Annotated[Path | None, Option(help="Folder for the results (default: collected/<grid>).", metavar="DIR")]
ResultsDir = Annotated[Path | None, Option(help="Where the results are (default: where they were put).", metavar="DIR")]
TunedDir = Annotated[Path | None, Option(help="Where the choices of bench tune lie.", metavar="DIR")]


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
    return [*lines, f"tables: bench leaderboard --results-dir {place}"]
