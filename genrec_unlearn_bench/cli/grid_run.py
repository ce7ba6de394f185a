"""``bench grid run``: runs what a grid is missing, on this machine or on a cluster."""

from __future__ import annotations

import platform
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.grid import running_lines
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.progress_display import duration, print_line, progressing

if TYPE_CHECKING:
    from genrec_unlearn_bench.executors.base import Executor, SweepOutcome
    from genrec_unlearn_bench.executors.trackers import Tracking
    from genrec_unlearn_bench.grid.expand import Build, GridCell
    from genrec_unlearn_bench.grid.plan import Plan
    from genrec_unlearn_bench.grid.schedule import Job
    from genrec_unlearn_bench.grid.state import SweepFacts, SweepFolder
    from genrec_unlearn_bench.store.store import StageStore

EXECUTORS = ("local", "slurm")
STANDINGS = ("missing", "stale")
QUIET = 60.0
"""Seconds without a line after which it is shown what runs, and the time left."""
MAX_RUNNING = 12

SlurmFile = Annotated[
    Path | None,
    Option("--slurm", help="Settings for Slurm (docs/large.md).", metavar="FILE", show_default=False, exists=True),
]
Only = Annotated[list[str] | None, Option(help="Only cells of such names: '*/tracer/*'; several.", metavar="PATTERN")]


def run(
    grid: options.Grid,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the jobs in their order, and run none.")] = False,
    executor: Annotated[str, Option("--executor", help="local or slurm.")] = "local",
    processes: Annotated[int | None, Option(help="Jobs at a time here (default: as cores allow).", min=1)] = None,
    cores: Annotated[int | None, Option(help="CPU cores for all jobs together (default: all).", min=1)] = None,
    memory: Annotated[int | None, Option(help="Memory for all jobs together, in MiB (default: all).", min=1)] = None,
    retries: Annotated[int, Option(help="Further attempts after a transient fault.", min=0)] = 2,
    only: Only = None,
    standing: Annotated[list[str] | None, Option("--standing", help="Only missing or only stale cells.")] = None,
    minutes: Annotated[float | None, Option(help="Begin no job later than this.", min=0.0)] = None,
    device: options.GridDevice = None,
    slurm: SlurmFile = None,
    tracker: options.Trackers = None,
    tracker_dir: options.TrackerDir = Path("tracking"),
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    results_dir: options.ResultsDir = Path("results"),
    tuned_dir: options.TunedDir = Path("tuned"),
) -> Output:
    """Run the cells of a grid that are missing or stale: shared stages first.

    What is interrupted, by Ctrl-C or by a power cut, goes on with the same command. A failed cell stops nothing else;
    exit code 1 where one failed or diverged. Several sweeps of one grid may run at once, in several terminals or on
    several machines that share the cache: they divide the work.
    """
    from genrec_unlearn_bench.executors.base import SweepOutcome
    from genrec_unlearn_bench.executors.local import Interrupts
    from genrec_unlearn_bench.executors.trackers import tracking_of
    from genrec_unlearn_bench.grid.expand import expand, graph_builder
    from genrec_unlearn_bench.grid.plan import make_plan, schedule
    from genrec_unlearn_bench.grid.reader import read_grid
    from genrec_unlearn_bench.grid.spec import find_grid
    from genrec_unlearn_bench.grid.state import SweepFolder
    from genrec_unlearn_bench.store.store import StageStore

    tracking = tracking_of(named(tracker or []), tracker_dir.absolute())
    cache = options.cache_root(cache_dir)
    spec = read_grid(grid, data_dir)
    folder = SweepFolder.of(cache, spec.name)
    with Interrupts() as interrupts:
        cells = expand(spec, data_dir=data_dir, results_dir=results_dir, tuned_dir=tuned_dir, device=device)
        build, store = graph_builder(download=not dry_run), StageStore(cache)
        with progressing() as progress:
            plan = make_plan(_selected(cells, only, grid), build, store, progress)
        wanted = {"done", "impossible", *(one_of("standing", name, STANDINGS) for name in standing or STANDINGS)}
        plan = replace(plan, cells=tuple(planned for planned in plan.cells if planned.standing in wanted))
        jobs = list(schedule(plan))
        if dry_run:
            return _job_list(plan, jobs)
        chosen = choose_executor(executor, folder, cache, processes, cores, memory, slurm)
        # Where there is nothing to do nothing is written, so that a cache that may only be read is enough.
        outcome = SweepOutcome()
        if jobs:
            places = {"data_dir": data_dir, "results_dir": results_dir, "tuned_dir": tuned_dir}
            facts = _facts(plan, tracking, grid=spec.name, device=device or "", executor=executor, places=places)
            folder.begin(facts, jobs, find_grid(grid))
            how = {"retries": retries, "minutes": minutes, "hurry": interrupts.hurry}
            outcome = _sweep(plan, jobs, chosen, folder, store, is_done=_done_check(cells, build, store), **how)
        return _conclusion(plan, jobs, outcome, results_dir)


def _facts(plan: Plan, tracking: Tracking | None, *, places: dict[str, Path | None], **fields: Any) -> SweepFacts:
    from genrec_unlearn_bench.grid.state import SweepFacts

    return SweepFacts(
        started=time.time(),
        host=platform.node(),
        command=shlex.join(["bench", *sys.argv[1:]]),
        **{name: str(place.absolute()) if place else "" for name, place in places.items()},
        trackers=tracking.names if tracking else (),
        tracker_dir=tracking.folder if tracking else "",
        cells=len(plan.cells) - plan.counts["impossible"],
        done=plan.counts["done"],
        **fields,
    )


def choose_executor(
    name: str,
    folder: SweepFolder,
    cache: Path,
    processes: int | None = None,
    cores: int | None = None,
    memory_mib: int | None = None,
    slurm: Path | None = None,
) -> Executor:
    """The executor of a name. Raises UnknownName, and UsageError where it cannot be used here."""
    from genrec_unlearn_bench.executors.local import LocalProcesses, Machine
    from genrec_unlearn_bench.executors.slurm import Slurm, read_slurm_settings

    one_of("executor", name, EXECUTORS)
    if name == "local":
        machine = Machine()
        machine = replace(machine, cores=cores or machine.cores, memory_mib=memory_mib or machine.memory_mib)
        return LocalProcesses(folder, cache, processes=processes, machine=machine)
    return Slurm(folder, cache, read_slurm_settings(slurm), info=lambda text: print_line(text, stderr=True))


def _done_check(cells: Sequence[GridCell], build: Build, store: StageStore) -> Callable[[Job], Path | None]:
    from genrec_unlearn_bench.grid.plan import make_plan

    by_name = {cell.name: cell for cell in cells}

    def is_done(job: Job) -> Path | None:
        if job.keys:
            key = job.keys[-1]
            return store.folder(job.until, key) if store.contains(job.until, key) else None
        planned = make_plan([by_name[job.name]], build, store, Progress()).cells[0]
        return planned.result if planned.standing == "done" else None

    return is_done


def _selected(cells: Sequence[GridCell], only: list[str] | None, grid: str) -> list[GridCell]:
    found = [cell for cell in cells if not only or any(fnmatchcase(cell.name, pattern) for pattern in only)]
    if not found:
        raise UsageError(
            f"no cell of the grid fits {' or '.join(map(repr, only or []))}",
            where="--only",
            hint=f"names look like {cells[0].name!r} (bench grid plan {grid})",
        )
    return found


def _sweep(
    plan: Plan, jobs: list[Job], executor: Executor, folder: SweepFolder, store: StageStore, **how: Any
) -> SweepOutcome:
    """Run the jobs and show how they go; ``how`` goes to ``run_jobs``."""
    from genrec_unlearn_bench.executors.base import Watcher, run_jobs
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.pipeline.environment import format_version_mismatches
    from genrec_unlearn_bench.store.store import old_store_notice

    # Jobs of an earlier call that Slurm has ended cannot write that themselves.
    slurm_states(folder)
    display = _Display(folder, len(jobs))
    for notice in filter(None, (old_store_notice(store.root), format_version_mismatches(), _summary(plan, jobs))):
        display.info(notice)
    return run_jobs(jobs, executor, folder, display, watcher=Watcher(ended=display.ended, tick=display.tick), **how)


class _Display(Progress):
    """A line on stderr for each job that ends, and now and then what runs."""

    def __init__(self, folder: SweepFolder, jobs: int) -> None:
        super().__init__()
        self.jobs = jobs
        self._folder = folder
        self._shown = time.monotonic()

    def info(self, text: str) -> None:
        self._shown = time.monotonic()
        print_line(text, stderr=True)

    def ended(self, job: Job, outcome: SweepOutcome) -> None:
        """Show that a job is over."""
        if job.name in outcome.done:
            how = duration(outcome.done[job.name].seconds or 0.0)
        elif job.name in outcome.by_other_sweeps:
            how = "done by another sweep"
        elif job.name in outcome.failed:
            failure = outcome.failed[job.name]
            how = f"{failure.how}: {failure.error.partition(chr(10))[0]}"
        else:
            how = f"skipped: {outcome.skipped.get(job.name, '')}"
        self.info(f"[{outcome.over}/{self.jobs}] {job.name}: {how}")

    def tick(self, outcome: SweepOutcome) -> None:
        """Called about once a second; rarely shows what runs."""
        from genrec_unlearn_bench.grid.status import sweep_status

        if time.monotonic() - self._shown < QUIET:
            return
        status = sweep_status(self._folder)
        parts = [f"{len(outcome.done) + len(outcome.by_other_sweeps)} of {self.jobs} jobs"]
        if outcome.failed or outcome.skipped:
            parts.append(f"{len(outcome.failed)} failed, {len(outcome.skipped)} skipped")
        if status.seconds_left is not None:
            parts.append(f"about {duration(status.seconds_left)} left")
        self.info("\n".join([" · ".join(parts), *running_lines(status, MAX_RUNNING)]))


def _summary(plan: Plan, jobs: list[Job]) -> str:
    counts = ", ".join(f"{count} {standing}" for standing, count in plan.counts.items() if count)
    known = [job.seconds for job in jobs if job.seconds is not None]
    time_ = f", {duration(sum(known))} on one core" if known else ""
    more = f" (of {len(jobs) - len(known)} nothing is known)" if known and len(known) < len(jobs) else ""
    return f"{len(plan.cells)} cells: {counts}; {len(jobs)} jobs{time_}{more}"


def _job_list(plan: Plan, jobs: list[Job]) -> Output:
    counts = {str(standing): count for standing, count in plan.counts.items()}
    lines = [_summary(plan, jobs)]
    for number, job in enumerate(jobs, start=1):
        needs = f"  (after {', '.join(job.needs)})" if job.needs else ""
        lines.append(f"{number:5}  {job.name}{needs}")
    return Output({"cells": counts, "jobs": [job.model_dump(mode="json") for job in jobs]}, lines)


def _conclusion(plan: Plan, jobs: list[Job], outcome: SweepOutcome, results_dir: Path) -> Output:
    impossible = [planned for planned in plan.cells if planned.standing == "impossible"]
    diverged = [name for name, ended in outcome.done.items() if ended.diverged]
    content = {
        "done": [
            {"job": name, "seconds": one.seconds, "result": one.result, "diverged": one.diverged}
            for name, one in outcome.done.items()
        ],
        "by_other_sweeps": [{"job": name, "result": place} for name, place in outcome.by_other_sweeps.items()],
        "failed": [{**vars(one), "job": name, "log": str(one.log)} for name, one in outcome.failed.items()],
        "skipped": [{"job": name, "reason": reason} for name, reason in outcome.skipped.items()],
        **{name: getattr(outcome, name) for name in ("left", "handed", "seconds", "storage", "interrupted")},
        "impossible": [{"cell": planned.cell.name, "reason": planned.reason} for planned in impossible],
        "results_dir": str(results_dir),
    }
    if outcome.handed:
        handed = f"{outcome.handed} jobs are Slurm's now: bench grid status, and bench grid collect at any time"
        return Output(content, [handed])
    counts = [f"{len(outcome.done) + len(outcome.by_other_sweeps)} of {len(jobs)} jobs done"]
    for name in ("failed", "skipped", "left"):
        counts += [f"{len(getattr(outcome, name))} {name}"] if getattr(outcome, name) else []
    failures = [
        line
        for failure in outcome.failed.values()
        for line in (
            f"{failure.how}: {failure.job.name} ({failure.attempts} attempts)",
            *(f"  {line}" for line in failure.error.splitlines()),
            "    the end of its log:",
            *(f"    | {line}" for line in failure.tail),
            f"  log: {failure.log}",
        )
    ]
    lines = [
        *failures,
        *(f"impossible: {planned.cell.name}: {planned.reason}" for planned in impossible),
        *(f"diverged, so not ranked: {name}" for name in diverged),
        f"{', '.join(counts)}, {duration(outcome.seconds)}; results: {results_dir}",
    ]
    fault: BaseException | None = KeyboardInterrupt() if outcome.interrupted else None
    if outcome.storage:
        what, _, rest = outcome.storage.partition("\n")
        fault = BenchError(f"the sweep has stopped: {what}", hint=rest.strip() or None)
    return Output(content, lines, int(bool(outcome.failed or diverged)), fault=fault)
