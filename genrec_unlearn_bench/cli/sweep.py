"""``bench sweep GRID``: runs what a grid is missing, on this machine or on a cluster."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import (
    AsJson,
    CacheDir,
    DataDir,
    Debug,
    ResultsDir,
    TrackerDir,
    Trackers,
    TunedDir,
)
from genrec_unlearn_bench.cli.options import named as listed
from genrec_unlearn_bench.errors import BenchError, StorageError, UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genrec_unlearn_bench.executors.executor import Executor
    from genrec_unlearn_bench.executors.trackers import Tracking
    from genrec_unlearn_bench.grid.cell import GridCell
    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.grid.plan import Plan
    from genrec_unlearn_bench.grid.sweep import SweepOutcome
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["sweep"]

STANDINGS = ("missing", "stale")

Grid = Annotated[str, typer.Argument(help="A grid file, or the name of a ready grid (bench ls grids).", metavar="GRID")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the jobs in their order, and run none.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="local, in-process or slurm.")]
Processes = Annotated[
    int | None, typer.Option(help="Jobs at a time on this machine (default: as many as it has cores for).", min=1)
]
Cores = Annotated[int | None, typer.Option(help="CPU cores for all jobs together (default: all).", min=1)]
Memory = Annotated[int | None, typer.Option(help="Memory for all jobs together, in MiB (default: all).", min=1)]
Retries = Annotated[int, typer.Option(help="Further attempts after a transient fault.", min=0)]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Cells whose name fits alone: '*/tracer/*'; repeat for several.", metavar="PATTERN"),
]
StandingName = Annotated[
    list[str] | None, typer.Option("--standing", help="Cells that stand so alone: missing or stale (default: both).")
]
Minutes = Annotated[float | None, typer.Option(help="Begin no job later than this.", min=0.0)]
Device = Annotated[
    str | None, typer.Option(help="auto, cpu, cuda or cuda:N (default: as the grid says).", show_default=False)
]
SlurmFile = Annotated[
    Path | None,
    typer.Option("--slurm", help="Settings for Slurm (docs/cluster.md).", metavar="FILE", show_default=False),
]


@handled
def sweep(
    grid: Grid,
    dry_run: DryRun = False,
    executor: ExecutorName = "local",
    processes: Processes = None,
    cores: Cores = None,
    memory: Memory = None,
    retries: Retries = 2,
    only: Only = None,
    standing: StandingName = None,
    minutes: Minutes = None,
    device: Device = None,
    slurm: SlurmFile = None,
    tracker: Trackers = None,
    tracker_dir: TrackerDir = Path("tracking"),
    data_dir: DataDir = None,
    cache_dir: CacheDir = None,
    results_dir: ResultsDir = Path("results"),
    tuned_dir: TunedDir = Path("tuned"),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run the cells of a grid that are missing or stale: shared stages first, early tables as they come.

    What is interrupted, by Ctrl-C or by a power cut, goes on with the same command. A failed cell stops nothing else;
    exit code 1 where one failed. Several sweeps of one grid may run at once, in several terminals or on several
    machines that share the cache: they divide the work.
    """
    from genrec_unlearn_bench.executors.trackers import tracking_of
    from genrec_unlearn_bench.grid.elsewhere import Elsewhere
    from genrec_unlearn_bench.grid.expand import expand
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.recorded_stages import known_results
    from genrec_unlearn_bench.grid.schedule import schedule
    from genrec_unlearn_bench.grid.spec import find_grid, read_grid
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    wanted = _known(standing)
    tracking = tracking_of(listed(tracker or []), tracker_dir.absolute())
    cache = cache_dir or default_cache()
    spec = read_grid(grid, data_dir)
    folder = SweepFolder.of(cache, spec.name)
    # Before the plan: what another sweep does from here on is not missed.
    elsewhere = Elsewhere(folder.events)
    cells = expand(spec, data_dir=data_dir, results_dir=results_dir, tuned_dir=tuned_dir, device=device)
    with progressing() as progress:
        store = StageStore(cache, progress)
        plan = make_plan(_fitting(cells, only, grid), store, progress, known_results(results_dir))
    jobs = list(schedule(_of(plan, wanted)))
    if dry_run:
        _show_jobs(plan, jobs, as_json=as_json)
        return
    call = _Call(spec.name, find_grid(grid), cache, results_dir, tuned_dir, data_dir, device, executor, tracking)
    call.keep(folder, plan, jobs)
    limits = {"processes": processes, "cores": cores, "memory_mib": memory, "slurm": slurm}
    chosen = _chosen(executor, folder, cache, jobs, limits)
    outcome = _run(plan, jobs, chosen, folder, store, elsewhere, retries=retries, minutes=minutes, as_json=as_json)
    _conclude(plan, jobs, outcome, results_dir, as_json=as_json)


def _known(standing: list[str] | None) -> tuple[str, ...]:
    for name in standing or ():
        if name not in STANDINGS:
            raise UnknownName("standing", name, STANDINGS)
    return tuple(standing or STANDINGS)


def _fitting(cells: Sequence[GridCell], only: list[str] | None, grid: str) -> list[GridCell]:
    found = [cell for cell in cells if not only or any(fnmatchcase(cell.name, pattern) for pattern in only)]
    if not found:
        raise UsageError(
            f"no cell of the grid fits {' or '.join(map(repr, only or []))}",
            where="--only",
            hint=f"names look like {cells[0].name!r} (bench plan {grid})",
        )
    return found


def _chosen(name: str, folder: Any, cache: Path, jobs: list[Job], limits: dict[str, Any]) -> Executor:
    """The executor, once what can be said against this machine is said."""
    from genrec_unlearn_bench.executors.choose import choose
    from genrec_unlearn_bench.pipeline.lock import told_off_lock

    with progressing() as progress:
        if differs := told_off_lock():
            progress.info(differs)
        return choose(name, folder, cache, jobs, **limits, info=progress.info)


def _of(plan: Plan, standings: tuple[str, ...]) -> Plan:
    """The plan without waiting cells that stand otherwise."""
    return replace(
        plan, cells=tuple(planned for planned in plan.cells if not planned.waits or planned.standing in standings)
    )


@dataclass(frozen=True)
class _Call:
    """What this call says of itself, for ``bench status`` and ``bench collect``."""

    grid: str
    file: Path
    cache: Path
    results_dir: Path
    tuned_dir: Path
    data_dir: Path | None
    device: str | None
    executor: str
    tracking: Tracking | None

    def keep(self, folder: Any, plan: Plan, jobs: list[Job]) -> None:
        """Write it into the sweep's folder. Raises StorageError."""
        from genrec_unlearn_bench.files import atomic_bytes
        from genrec_unlearn_bench.grid.journal import host_name
        from genrec_unlearn_bench.grid.sweep_facts import SweepFacts, write_facts

        counts = plan.counts
        facts = SweepFacts(
            grid=self.grid,
            started=time.time(),
            host=host_name(),
            command=shlex.join(["bench", *sys.argv[1:]]),
            results_dir=str(self.results_dir.absolute()),
            data_dir=str(self.data_dir.absolute()) if self.data_dir else "",
            tuned_dir=str(self.tuned_dir.absolute()),
            device=self.device or "",
            executor=self.executor,
            tracking=self.tracking,
            cells=sum(counts.values()) - counts["impossible"],
            done=counts["done"],
        )
        atomic_bytes(folder.grid, self.file.read_bytes(), "--cache-dir")
        folder.write_jobs(jobs)
        write_facts(folder, facts)


def _run(
    plan: Plan,
    jobs: list[Job],
    executor: Executor,
    folder: Any,
    store: StageStore,
    elsewhere: Any,
    *,
    retries: int,
    minutes: float | None,
    as_json: bool,
) -> SweepOutcome:
    from genrec_unlearn_bench.cli.sweep_display import displayed
    from genrec_unlearn_bench.cli.sweep_tables import EarlyTables
    from genrec_unlearn_bench.grid.compaction import compact
    from genrec_unlearn_bench.grid.journal import Journal
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.sweep import Watcher
    from genrec_unlearn_bench.grid.sweep import sweep as run_jobs
    from genrec_unlearn_bench.progress import Progress

    cells = {planned.cell.name: planned.cell for planned in plan.cells}

    def is_done(job: Job) -> Path | None:
        judged = make_plan([cells[job.name]], store, Progress()).cells[0]
        return judged.result if judged.standing == "done" else None

    journal = Journal(folder.events)
    with displayed(len(jobs)) as display:
        tables = EarlyTables(plan.cells, display.show)

        def ended(job: Job, outcome: SweepOutcome) -> None:
            display.ended(job, outcome)
            if not as_json:
                tables.ended(job, outcome)

        display.info(_summary(plan, jobs))
        outcome = run_jobs(
            jobs,
            executor,
            folder,
            journal,
            display,
            retries=retries,
            minutes=minutes,
            elsewhere=elsewhere,
            is_done=is_done,
            watcher=Watcher(ended=ended, tick=display.tick),
        )
    journal.close()
    # Thousands of jobs leave thousands of files. Where these cannot be folded now, they are next time.
    with suppress(StorageError):
        compact(folder.events)
    return outcome


def _summary(plan: Plan, jobs: list[Job]) -> str:
    from genrec_unlearn_bench.cli.sweep_display import told_seconds

    counts = ", ".join(f"{count} {standing}" for standing, count in plan.counts.items() if count)
    known = [job.seconds for job in jobs if job.seconds is not None]
    time_ = f", {told_seconds(sum(known))} on one core" if known else ""
    more = f" (of {len(jobs) - len(known)} nothing is known)" if known and len(known) < len(jobs) else ""
    return f"{len(plan.cells)} cells: {counts}; {len(jobs)} jobs{time_}{more}"


def _show_jobs(plan: Plan, jobs: list[Job], *, as_json: bool) -> None:
    if as_json:
        counts = {str(standing): count for standing, count in plan.counts.items()}
        print_json({"cells": counts, "jobs": [job.model_dump(mode="json") for job in jobs]})
        return
    console = stdout()
    console.print(_summary(plan, jobs))
    for number, job in enumerate(jobs, start=1):
        needs = f"  (after {', '.join(job.needs)})" if job.needs else ""
        console.print(f"{number:5}  {job.name}{needs}", soft_wrap=True)


def _conclude(plan: Plan, jobs: list[Job], outcome: SweepOutcome, results_dir: Path, *, as_json: bool) -> None:
    from genrec_unlearn_bench.cli.sweep_display import told_seconds
    from genrec_unlearn_bench.cli.sweep_tables import conclude, document

    impossible = [planned for planned in plan.cells if planned.standing == "impossible"]
    if as_json:
        refused = [{"cell": planned.cell.name, "reason": planned.reason} for planned in impossible]
        print_json({**document(outcome), "impossible": refused, "results_dir": str(results_dir)})
    elif outcome.handed:
        stdout().print(f"{outcome.handed} jobs are Slurm's now: bench status, and bench collect at any time")
    else:
        if jobs:
            conclude(outcome, jobs, results_dir)
        console = stdout()
        for planned in impossible:
            console.print(f"impossible: {planned.cell.name}: {planned.reason}", soft_wrap=True)
        done = len(outcome.done) + len(outcome.elsewhere)
        counts = [f"{done} of {len(jobs)} jobs done", f"{len(outcome.failed)} failed" if outcome.failed else ""]
        counts += [f"{len(outcome.skipped)} skipped" if outcome.skipped else ""]
        counts += [f"{len(outcome.left)} left" if outcome.left else "", told_seconds(outcome.seconds)]
        console.print(f"{', '.join(filter(None, counts))}; results: {results_dir}", soft_wrap=True)
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.storage:
        what, _, rest = outcome.storage.partition("\n")
        raise BenchError(f"the sweep has stopped: {what}", hint=rest.strip() or None)
    if outcome.failed:
        raise typer.Exit(1)
