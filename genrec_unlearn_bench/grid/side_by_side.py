"""Runs a handful of cells in a pool of processes and gives their results back: a sweep that nobody has to name."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.executors.choose import choose
from genrec_unlearn_bench.grid.cell import GridCell, cell_name
from genrec_unlearn_bench.grid.journal import Journal
from genrec_unlearn_bench.grid.plan import make_plan
from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.grid.schedule import schedule
from genrec_unlearn_bench.grid.sweep import Watcher, sweep
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.store.store import StageStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.grid.sweep import SweepOutcome
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.progress import Progress

__all__ = ["SideBySide", "run_side_by_side"]


@dataclass(frozen=True)
class SideBySide:
    """What came of the cells.

    Attributes:
        folders: Results by the request's place in what was asked for.
        refused: Requests that cannot be run as they are asked for, with the reason.
    """

    folders: dict[int, Path]
    refused: list[tuple[RunRequest, BenchError]]


def run_side_by_side(requests: Sequence[RunRequest], cache: Path, progress: Progress, *, processes: int) -> SideBySide:
    """Run cells, stages that they share once, ``processes`` at a time on a thread each.

    Raises BenchError for the first cell that fails, once no other runs; finished stages are kept.
    """
    refused: list[tuple[RunRequest, BenchError]] = []
    cells: list[GridCell] = []
    places: dict[str, int] = {}
    for place, request in enumerate(requests):
        try:
            settle(request)
        except BenchError as fault:
            refused.append((request, fault))
            continue
        # By its place, as two requests may differ in fields that no name tells.
        name = f"{place} {cell_name(request)}"
        places[name] = place
        cells.append(GridCell(name, request, Resources(cores=request.threads or 1)))
    plan = make_plan(cells, StageStore(cache, progress), progress)
    jobs = schedule(plan)
    outcome = _swept(jobs, cache, progress, processes)
    folders = {
        places[planned.cell.name]: planned.result for planned in plan.cells if planned.result and not planned.waits
    }
    folders |= {places[name]: Path(ended.result) for name, ended in outcome.done.items() if name in places}
    return SideBySide(folders, refused)


def _swept(jobs: Sequence[Job], cache: Path, progress: Progress, processes: int) -> SweepOutcome:
    def ended(job: Job, outcome: SweepOutcome) -> None:
        if job.name in outcome.done:
            progress.info(f"[{len(outcome.done)}/{len(jobs)}] {job.name}: {outcome.done[job.name].seconds:.0f} s")

    with tempfile.TemporaryDirectory(prefix="bench-sweep-") as place:
        folder = SweepFolder(Path(place))
        folder.write_jobs(jobs)
        executor = choose("local", folder, cache, jobs, processes=processes, info=progress.info)
        outcome = sweep(jobs, executor, folder, Journal(folder.events), progress, watcher=Watcher(ended=ended))
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.storage:
        raise BenchError(outcome.storage)
    for name, failure in outcome.failed.items():
        told = "".join(f"\n  | {line}" for line in failure.tail)
        raise BenchError(f"{name} {failure.how}: {failure.error}\n  the end of its log:{told}")
    return outcome
