"""``bench grid run``: runs what a grid is missing, on this machine or on a cluster."""

from __future__ import annotations

import shlex
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.grid import failed_lines, running_lines
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.progress_display import duration, print_line, progressing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genrec_unlearn_bench.executors.base import Executor, SweepOutcome
    from genrec_unlearn_bench.grid.expand import GridCell
    from genrec_unlearn_bench.grid.plan import Plan
    from genrec_unlearn_bench.grid.spec import Job
    from genrec_unlearn_bench.grid.state import SweepFolder

QUIET = 60.0
"""Seconds without a line after which it is shown what runs, and the time left."""
MAX_RUNNING = 12

DryRun = Annotated[bool, Option("--dry-run", help="Show the jobs in their order, and run none.")]
ExecutorName = Annotated[str, Option("--executor", help="local or slurm.")]
Processes = Annotated[int | None, Option(help="Jobs at a time here (default: as cores allow).", min=1)]
Cores = Annotated[int | None, Option(help="CPU cores for all jobs together (default: all).", min=1)]
Memory = Annotated[int | None, Option(help="Memory for all jobs together, in MiB (default: all).", min=1)]
Retries = Annotated[int, Option(help="Further attempts after a transient fault.", min=0)]
Only = Annotated[
    list[str] | None,
    Option(help="Only cells of such names: '*/tracer/*'; several.", metavar="PATTERN"),
]
Minutes = Annotated[float | None, Option(help="Begin no job later than this.", min=0.0)]
SlurmFile = Annotated[
    Path | None,
    Option("--slurm", help="Settings for Slurm (docs/large.md).", metavar="FILE", show_default=False, exists=True),
]


def run(
    grid: options.Grid,
    dry_run: DryRun = False,
    executor: ExecutorName = "local",
    processes: Processes = None,
    cores: Cores = None,
    memory: Memory = None,
    retries: Retries = 2,
    only: Only = None,
    minutes: Minutes = None,
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
    from genrec_unlearn_bench.executors.base import Sweep, SweepOutcome
    from genrec_unlearn_bench.executors.local import interrupts
    from genrec_unlearn_bench.executors.trackers import tracking_of
    from genrec_unlearn_bench.grid.expand import expand, graph_builder, read_grid
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.spec import find_grid
    from genrec_unlearn_bench.grid.state import SweepFacts, SweepFolder
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    tracking = tracking_of(named(tracker or []), tracker_dir.absolute())
    cache = cache_dir or default_cache()
    spec = read_grid(grid, data_dir)
    folder = SweepFolder.of(cache, spec.name)
    places: dict[str, Any] = {"data_dir": data_dir, "results_dir": results_dir, "tuned_dir": tuned_dir}
    with interrupts() as hurry:
        cells = _selected(expand(spec, **places, device=device), only, grid)
        with progressing() as progress:
            plan = make_plan(cells, graph_builder(download=not dry_run), StageStore(cache), progress)
        jobs = plan.jobs
        if dry_run:
            return _job_list(plan, jobs)
        chosen, outcome = choose_executor(executor, folder, cache, processes, cores, memory, slurm), SweepOutcome()
        # Where there is nothing to do nothing is written, so that a cache that may only be read is enough.
        if jobs:
            facts = SweepFacts(
                grid=spec.name,
                started=time.time(),
                command=shlex.join(["bench", *sys.argv[1:]]),
                **{name: str(place.absolute()) if place else "" for name, place in places.items()},
                device=device or "",
                trackers=tracking.names if tracking else (),
                tracker_dir=tracking.folder if tracking else "",
                cells=len(plan.cells) - plan.counts["impossible"],
                done=plan.counts["done"],
            )
            folder.begin(facts, jobs, find_grid(grid))
            display = _Display(folder, plan, jobs, cache)
            how: dict[str, Any] = {"retries": retries, "minutes": minutes}
            sweep = Sweep(jobs, chosen, folder, display, ended=display.ended, tick=display.tick, **how)
            outcome = sweep.run(hurry)
        return _conclusion(plan, len(jobs), outcome, folder, results_dir)


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
    from genrec_unlearn_bench.executors.slurm import Slurm, read_slurm_settings, slurm_states

    one_of("executor", name, ("local", "slurm"))
    # Jobs of an earlier call that Slurm has ended cannot write that themselves.
    slurm_states(folder)
    if name == "slurm":
        return Slurm(folder, cache, read_slurm_settings(slurm), info=lambda text: print_line(text, stderr=True))
    limits = {"cores": cores, "memory_mib": memory_mib}
    machine = Machine(**{name: limit for name, limit in limits.items() if limit is not None})  # type: ignore[arg-type]
    return LocalProcesses(folder, cache, processes=processes, machine=machine)


def _selected(cells: Sequence[GridCell], only: list[str] | None, grid: str) -> list[GridCell]:
    found = [cell for cell in cells if not only or any(fnmatchcase(cell.name, pattern) for pattern in only)]
    if not found:
        raise UsageError(
            f"no cell of the grid fits {' or '.join(map(repr, only or []))}",
            where="--only",
            hint=f"names look like {cells[0].name!r} (bench grid plan {grid})",
        )
    return found


class _Display(Progress):
    """A line on stderr for each job that ends, and now and then what runs."""

    def __init__(self, folder: SweepFolder, plan: Plan, jobs: Sequence[Job], cache: Path) -> None:
        from genrec_unlearn_bench.pipeline.environment import format_version_mismatches
        from genrec_unlearn_bench.store.store import old_store_notice

        super().__init__()
        self._folder = folder
        self._jobs = len(jobs)
        for notice in filter(None, (old_store_notice(cache), format_version_mismatches(), _summary(plan, jobs))):
            self.info(notice)

    def info(self, text: str) -> None:
        self._shown = time.monotonic()
        print_line(text, stderr=True)

    def ended(self, job: Job, outcome: SweepOutcome) -> None:
        """Show that a job is over."""
        over = len({**outcome.done, **outcome.by_other_sweeps, **outcome.failed, **outcome.skipped})
        how = f"skipped: {outcome.skipped.get(job.name, '')}"
        if job.name in outcome.done:
            how = duration(outcome.done[job.name].seconds or 0.0)
        elif job.name in outcome.by_other_sweeps:
            how = "done by another sweep"
        elif (failed := outcome.failed.get(job.name)) is not None:
            how = f"{failed.how}: {failed.error.partition(chr(10))[0]}"
        self.info(f"[{over}/{self._jobs}] {job.name}: {how}")

    def tick(self, outcome: SweepOutcome) -> None:
        """Called again and again; rarely shows what runs."""
        from genrec_unlearn_bench.grid.status import sweep_status

        if time.monotonic() - self._shown < QUIET:
            return
        status = sweep_status(self._folder)
        left = "" if status.seconds_left is None else f", about {duration(status.seconds_left)} left"
        self.info("\n".join([f"{_counts(outcome, self._jobs)}{left}", *running_lines(status, MAX_RUNNING)]))


def _counts(outcome: SweepOutcome, jobs: int) -> str:
    counts = [f"{len(outcome.done) + len(outcome.by_other_sweeps)} of {jobs} jobs done"]
    for name in ("failed", "skipped", "left"):
        counts += [f"{len(getattr(outcome, name))} {name}"] if getattr(outcome, name) else []
    return ", ".join(counts)


def _summary(plan: Plan, jobs: Sequence[Job]) -> str:
    counts = ", ".join(f"{count} {standing}" for standing, count in plan.counts.items() if count)
    known = [job.seconds for job in jobs if job.seconds is not None]
    time_ = f", {duration(sum(known))} on one core" if known else ""
    more = f" (of {len(jobs) - len(known)} nothing is known)" if known and len(known) < len(jobs) else ""
    return f"{len(plan.cells)} cells: {counts}; {len(jobs)} jobs{time_}{more}"


def _job_list(plan: Plan, jobs: Sequence[Job]) -> Output:
    lines = [_summary(plan, jobs)]
    for number, job in enumerate(jobs, start=1):
        needs = f"  (after {', '.join(job.needs)})" if job.needs else ""
        lines.append(f"{number:5}  {job.name}{needs}")
    return Output({"cells": plan.counts, "jobs": [job.model_dump(mode="json") for job in jobs]}, lines)


def _conclusion(plan: Plan, jobs: int, outcome: SweepOutcome, folder: SweepFolder, results_dir: Path) -> Output:
    from genrec_unlearn_bench.grid.state import tail

    impossible = [planned for planned in plan.cells if planned.standing == "impossible"]
    diverged = [name for name, ended in outcome.done.items() if ended.diverged]
    done = ("seconds", "result", "diverged")
    failed: list[dict[str, Any]] = [
        {"job": name, "how": one.how, "error": one.error, "attempts": one.attempts}
        | {"log": str(folder.log(name)), "tail": tail(folder.log(name))}
        for name, one in outcome.failed.items()
    ]
    content = {
        "done": [{"job": name, **one.model_dump(include={*done})} for name, one in outcome.done.items()],
        "by_other_sweeps": [{"job": name, "result": place} for name, place in outcome.by_other_sweeps.items()],
        "failed": failed,
        "skipped": [{"job": name, "reason": reason} for name, reason in outcome.skipped.items()],
        **{name: getattr(outcome, name) for name in ("left", "handed", "seconds", "storage", "interrupted")},
        "impossible": [{"cell": planned.cell.name, "reason": planned.reason} for planned in impossible],
        "results_dir": str(results_dir),
    }
    if outcome.handed:
        lines = [f"{outcome.handed} jobs are Slurm's now: bench grid status, and bench grid collect at any time"]
        return Output(content, lines)
    lines = [
        *(line for one in failed for line in failed_lines(**one)),
        *(f"impossible: {planned.cell.name}: {planned.reason}" for planned in impossible),
        *(f"diverged, so not ranked: {name}" for name in diverged),
        f"{_counts(outcome, jobs)}, {duration(outcome.seconds)}; results: {results_dir}",
    ]
    fault: BaseException | None = KeyboardInterrupt() if outcome.interrupted else None
    if outcome.storage:
        what, _, rest = outcome.storage.partition("\n")
        fault = BenchError(f"the sweep has stopped: {what}", hint=rest.strip() or None)
    return Output(content, lines, int(bool(failed or diverged)), fault=fault)
