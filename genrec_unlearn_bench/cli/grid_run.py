"""``bench grid run``: runs what a grid is missing, on this machine or on a cluster."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.grid import failed_lines, running_lines
from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.progress_display import duration, print_line, progressing
from genrec_unlearn_bench.reporting.wording import counted

if TYPE_CHECKING:
    from genrec_unlearn_bench.executors.sweep import SweepOutcome
    from genrec_unlearn_bench.grid.expand import GridCell
    from genrec_unlearn_bench.grid.plan import Plan
    from genrec_unlearn_bench.grid.spec import Job
    from genrec_unlearn_bench.grid.state import SweepFacts, SweepFolder

QUIET = 60.0
"""Seconds without a line after which it is shown what runs, and the time left."""

DryRun = Annotated[bool, Option("--dry-run", help="Show the jobs in their order, and run none.")]
ExecutorName = Annotated[str, Option("--executor", help="local or slurm.")]
Processes = Annotated[int | None, Option(help="Jobs at a time here (default: as cores allow).", min=1)]
Memory = Annotated[int | None, Option(help="Memory for all jobs together, in MiB (default: all).", min=1)]
Only = Annotated[list[str] | None, Option(help="Only cells of such names: '*/tracer/*'; several.", metavar="PATTERN")]
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
    memory: Memory = None,
    only: Only = None,
    minutes: Minutes = None,
    device: options.GridDevice = None,
    slurm: SlurmFile = None,
    tensorboard: options.TensorBoard = None,
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    results_dir: options.ResultsDir = Path("results"),
    tuned_dir: options.TunedDir = Path("tuned"),
) -> Output:
    """Run the cells of a grid that are missing: shared stages first.

    What is interrupted, by Ctrl-C or by a power cut, goes on with the same command. A failed cell stops nothing else;
    exit code 1 where one failed or diverged. Several sweeps of one grid may run at once, in several terminals or on
    several machines that share the cache: they divide the work.
    """
    from genrec_unlearn_bench.executors.local import LocalProcesses, Machine
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.executors.sweep import Sweep, SweepOutcome
    from genrec_unlearn_bench.grid.expand import expand, graph_builder, read_grid
    from genrec_unlearn_bench.grid.plan import make_plan
    from genrec_unlearn_bench.grid.state import SweepFolder
    from genrec_unlearn_bench.store.store import StageStore

    one_of("executor", executor, ("local", "slurm"))
    spec = read_grid(grid, data_dir)
    folder = SweepFolder.of(options.cache_root(cache_dir), spec.name)
    places: dict[str, Any] = {"data_dir": data_dir, "results_dir": results_dir, "tuned_dir": tuned_dir}
    cells = _selected(expand(spec, **places, device=device), only, grid)
    with progressing() as progress:
        plan = make_plan(cells, graph_builder(download=not dry_run), StageStore(folder.cache), progress)
    jobs = plan.jobs
    if dry_run:
        return _job_list(plan, jobs)
    # Where there is nothing to do nothing is written, so that a cache that may only be read is enough.
    if not jobs:
        return _conclusion(plan, jobs, SweepOutcome(), folder, results_dir)
    facts = _facts(grid, plan, {**places, "tensorboard": tensorboard}, device)
    display = _Display(folder, plan, jobs)
    if executor == "slurm":
        return _submit(folder, facts, jobs, slurm, display)
    machine = Machine() if memory is None else Machine(memory_mib=memory)
    local = LocalProcesses(folder, processes=processes, machine=machine)
    # Jobs of an earlier call that Slurm has ended cannot write that themselves.
    slurm_states(folder)
    folder.begin(facts, jobs)
    outcome = Sweep(jobs, local, folder, display, minutes, ended=display.ended, tick=display.tick).run()
    return _conclusion(plan, jobs, outcome, folder, results_dir)


def _selected(cells: Sequence[GridCell], only: list[str] | None, grid: str) -> Sequence[GridCell]:
    found = [cell for cell in cells if not only or any(fnmatchcase(cell.name, pattern) for pattern in only)]
    if not found:
        hint = f"names look like {cells[0].name!r} (bench grid plan {grid})"
        raise UsageError(f"no cell of the grid fits {' or '.join(only or ())}", where="--only", hint=hint)
    return found


def _facts(grid: str, plan: Plan, places: dict[str, Path | None], device: str | None) -> SweepFacts:
    from genrec_unlearn_bench.grid.spec import find_grid
    from genrec_unlearn_bench.grid.state import SweepFacts

    places = {"file": find_grid(grid), **places}
    return SweepFacts(
        started=time.time(),
        command=shlex.join(["bench", *sys.argv[1:]]),
        **{name: str(place.absolute()) if place else "" for name, place in places.items()},
        device=device or "",
        cells=len(plan.cells) - plan.counts["impossible"],
        done=plan.counts["done"],
    )


def _submit(
    folder: SweepFolder, facts: SweepFacts, jobs: Sequence[Job], settings: Path | None, display: _Display
) -> Output:
    from genrec_unlearn_bench.data.catalogue import read_yaml
    from genrec_unlearn_bench.executors.slurm import Slurm, SlurmSettings

    hint = "give the path of a YAML file"
    chosen = read_yaml(SlurmSettings, settings, hint=hint) if settings else SlurmSettings()
    slurm = Slurm(folder, chosen, info=display.info)
    folder.begin(facts, jobs)
    slurm.submit(jobs)
    line = f"{len(jobs)} jobs are Slurm's now: bench grid status, and bench grid collect at any time"
    return Output({"handed": len(jobs)}, [line])


class _Display(Progress):
    """A line on stderr for each job that ends, and now and then what runs."""

    def __init__(self, folder: SweepFolder, plan: Plan, jobs: Sequence[Job]) -> None:
        super().__init__()
        self._folder = folder
        self._jobs = len(jobs)
        # Kept, as another sweep may begin in the folder with jobs of its own.
        fields: Any = {"name": True, "until": True, "seconds": True, "request": {"backbone", "method"}}
        self._listed = [job.model_dump(include=fields) for job in jobs]
        self.info(_summary(plan, jobs))

    def info(self, text: str) -> None:
        self._shown = time.monotonic()
        print_line(text, stderr=True)

    def ended(self, job: Job, outcome: SweepOutcome) -> None:
        """Show that a job is over."""
        if (done := outcome.done.get(job.name)) is not None:
            how = duration(done.seconds or 0.0)
        elif (failed := outcome.failed.get(job.name)) is not None:
            how = f"{failed.how}: {failed.reason}"
        else:
            how = f"skipped: {outcome.skipped[job.name]}"
        over = len(outcome.done) + len(outcome.failed) + len(outcome.skipped)
        self.info(f"[{over}/{self._jobs}] {job.name}: {how}")

    def tick(self, outcome: SweepOutcome) -> None:
        """Called again and again; rarely shows what runs."""
        from genrec_unlearn_bench.grid.status import sweep_status

        if time.monotonic() - self._shown < QUIET:
            return
        status = sweep_status(self._folder, jobs=self._listed)
        left = "" if status.seconds_left is None else f", about {duration(status.seconds_left)} left"
        self.info("\n".join([f"{_counts(outcome, self._jobs)}{left}", *running_lines(status)]))


def _counts(outcome: SweepOutcome, jobs: int) -> str:
    counts = [f"{len(outcome.done)} of {jobs} jobs done"]
    for name in ("failed", "skipped", "left"):
        counts += [f"{len(getattr(outcome, name))} {name}"] if getattr(outcome, name) else []
    return ", ".join(counts)


def _summary(plan: Plan, jobs: Sequence[Job]) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in plan.counts.items() if count)
    known = [job.seconds for job in jobs if job.seconds is not None]
    time_ = f", {duration(sum(known))} on one core" if known else ""
    more = f" (of {len(jobs) - len(known)} nothing is known)" if known and len(known) < len(jobs) else ""
    return f"{counted(len(plan.cells), 'cell')}: {counts}; {counted(len(jobs), 'job')}{time_}{more}"


def _job_list(plan: Plan, jobs: Sequence[Job]) -> Output:
    numbers = {job.name: str(number) for number, job in enumerate(jobs, start=1)}
    after = {job.name: ", ".join(numbers[need] for need in job.needs) for job in jobs}
    lines = [_summary(plan, jobs)]
    lines += [f"{numbers[job]:>5}  {job}" + (f"  (after {needs})" if needs else "") for job, needs in after.items()]
    return Output({"cells": plan.counts, "jobs": [job.model_dump(mode="json") for job in jobs]}, lines)


def _conclusion(
    plan: Plan, jobs: Sequence[Job], outcome: SweepOutcome, folder: SweepFolder, results_dir: Path
) -> Output:
    from genrec_unlearn_bench.grid.state import tail

    impossible = [planned for planned in plan.cells if planned.status == "impossible"]
    diverged = [name for name, ended in outcome.done.items() if ended.diverged]
    failed: list[dict[str, Any]] = [
        {"job": name, "how": one.how, "error": one.error, "attempts": one.attempts}
        | {"log": str(folder.log(name)), "tail": tail(folder.log(name))}
        for name, one in outcome.failed.items()
    ]
    done = {"job", "seconds", "result", "diverged"}
    content = {
        "done": [one.model_dump(include=done) for one in outcome.done.values()],
        "failed": failed,
        "skipped": [{"job": name, "reason": reason} for name, reason in outcome.skipped.items()],
        **{name: getattr(outcome, name) for name in ("left", "seconds", "storage", "interrupted")},
        "impossible": [{"cell": planned.cell.name, "reason": planned.reason} for planned in impossible],
        "results_dir": str(results_dir),
    }
    lines = [
        *(line for one in failed for line in failed_lines(**one)),
        *(f"impossible: {planned.cell.name}: {planned.reason}" for planned in impossible),
        *(f"diverged, so not ranked: {name}" for name in diverged),
        f"{_counts(outcome, len(jobs))}, {duration(outcome.seconds)}; results: {results_dir}",
    ]
    fault: BaseException | None = KeyboardInterrupt() if outcome.interrupted else None
    if outcome.storage:
        what, _, rest = outcome.storage.partition("\n")
        fault = BenchError(f"the sweep has stopped: {what}", hint=rest.strip() or None)
    nothing = len(impossible) == len(plan.cells) > 0
    return Output(content, lines, int(bool(failed or diverged or nothing)), fault=fault)
