"""The executors' interface, and the loop that feeds jobs to an executor until all are done that can be.

A job that fails stops nothing but what needs it. An interrupted sweep continues with the same call: what is done
follows from the store and the results, so the loop keeps nothing that could be lost.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import StorageError, UsageError
from genrec_unlearn_bench.grid.schedule import RESULT, Job
from genrec_unlearn_bench.grid.state import JobState, State, SweepFolder, tail

if TYPE_CHECKING:
    from genrec_unlearn_bench.progress import Progress

TICK = 1.0
"""Seconds between two looks at everything, where nothing ends meanwhile."""
MAX_LOOKED_AT = 64
"""Ready jobs that are looked at before the rest is left for later."""
PAUSES = (2.0, 10.0, 60.0, 300.0)
"""Seconds before the second, third … attempt, so that what is down has time to come up."""
STOPPED = "stopped before it was done; finished stages are kept"


class Executor(ABC):
    """Runs jobs whose needs are done. Decides where and when a job runs, never what it computes."""

    name: str
    detached: bool = False
    """Whether ``submit`` hands over all jobs with their needs; the sweep then ends, and the jobs run elsewhere."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Start jobs, or hand them to the scheduler, which keeps to their ``needs``. Attempts count from 1."""

    def has_capacity(self, job: Job) -> bool:
        """Whether the job could start now beside those that run. Raises UsageError where it never could."""
        return True

    def ended(self, timeout: float) -> list[JobState]:
        """Attempts that ended since the last call; waits up to ``timeout`` seconds for the first."""
        return []

    def close(self, hurry: threading.Event | None = None) -> None:  # noqa: B027
        """Stop what runs, politely until ``hurry`` is set, and release everything. Finished stages stay."""


@dataclass(frozen=True)
class Failure:
    """A job that failed for good."""

    job: Job
    how: str
    error: str
    attempts: int
    log: Path
    tail: tuple[str, ...]


@dataclass
class SweepOutcome:
    """What came of a sweep.

    Attributes:
        by_other_sweeps: Jobs that another sweep has done meanwhile -> result.
        failed: Jobs that failed for good.
        skipped: Jobs that were not tried -> why.
        left: Jobs that were not begun or not finished, because the sweep was to stop.
        handed: Number of jobs that a scheduler has taken.
        seconds: Wall-clock.
        storage: Why the file system refused, if it did; the sweep has ended for that.
        interrupted: Whether the user stopped it.
    """

    done: dict[str, JobState] = field(default_factory=dict)
    by_other_sweeps: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Failure] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    handed: int = 0
    seconds: float = 0.0
    storage: str = ""
    interrupted: bool = False

    @property
    def over(self) -> int:
        """Jobs that will not be tried any more."""
        return len(self.done) + len(self.by_other_sweeps) + len(self.failed) + len(self.skipped)


@dataclass(frozen=True)
class Watcher:
    """Callbacks of a sweep: a job is over (done here or elsewhere, failed, skipped); and about once a second."""

    ended: Callable[[Job, SweepOutcome], None] = lambda job, outcome: None
    tick: Callable[[SweepOutcome], None] = lambda outcome: None


def run_jobs(
    jobs: Sequence[Job],
    executor: Executor,
    folder: SweepFolder,
    progress: Progress,
    *,
    retries: int = 2,
    minutes: float | None = None,
    is_done: Callable[[Job], Path | None] = lambda job: None,
    watcher: Watcher | None = None,
    hurry: threading.Event | None = None,
) -> SweepOutcome:
    """Run jobs. Returns what came of them, also where the user or the file system put an end to it.

    Args:
        jobs: In the order in which they are to be tried, each behind what it needs.
        retries: Further attempts after a transient fault.
        minutes: No job begins later than this after the start.
        is_done: The result of a job that another sweep claims to have done, if that is so; None else.
        hurry: Once set, an interrupted sweep kills what still runs.
    """
    ends = float("inf") if minutes is None else time.monotonic() + minutes * 60
    return _Sweep(jobs, executor, folder, progress, retries, ends, is_done, watcher or Watcher()).run(hurry)


@dataclass
class _Sweep:
    jobs: Sequence[Job]
    executor: Executor
    folder: SweepFolder
    progress: Progress
    retries: int
    ends: float
    is_done: Callable[[Job], Path | None]
    watcher: Watcher
    outcome: SweepOutcome = field(default_factory=SweepOutcome)
    running: dict[str, Job] = field(default_factory=dict)
    tries: Counter[str] = field(default_factory=Counter)
    """Attempts in this sweep."""
    pauses: dict[str, float] = field(default_factory=dict)
    """When a job may be tried again."""
    began: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.waiting = {job.name for job in self.jobs}
        self.earlier = {name: state.attempts for name, state in self.folder.states().items()}

    def run(self, hurry: threading.Event | None) -> SweepOutcome:
        try:
            if self.executor.detached:
                self.tries.update(job.name for job in self.jobs)
                self.executor.submit(self.jobs, [self._attempt(job) for job in self.jobs])
                self.outcome.handed = len(self.jobs)
            else:
                self._run_all()
        except StorageError as fault:
            self._refused(fault.render())
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            self.progress.info("stopping: running jobs are asked to end (once more to kill them)")
        finally:
            if not self.executor.detached:
                self.executor.close(hurry)
        for name, job in self.running.items():
            self._write(job, "lost", error=STOPPED)
            self.progress.info(f"stopped: {name}")
        if not self.outcome.handed:
            self.outcome.left = (*self.running, *(job.name for job in self.jobs if job.name in self.waiting))
        self.outcome.seconds = time.time() - self.began
        return self.outcome

    def _run_all(self) -> None:
        while self.running or (self.waiting and not self._stops()):
            self._feed()
            self.watcher.tick(self.outcome)
            if self.running:
                for ended in self.executor.ended(TICK):
                    self._ended(ended)
            elif self.waiting:
                time.sleep(TICK / 4)

    def _stops(self) -> bool:
        return bool(self.outcome.storage) or time.monotonic() > self.ends

    def _ready(self) -> Iterator[Job]:
        """Jobs whose needs are done, in their order, without those that pause. What is no job here counts as done."""
        now = time.monotonic()
        for job in self.jobs:
            if job.name not in self.waiting or self.pauses.get(job.name, 0.0) > now:
                continue
            if not any(need in self.waiting or need in self.running for need in job.needs):
                yield job

    def _feed(self) -> None:
        for job in islice(self._ready(), MAX_LOOKED_AT):
            if self._stops():
                return
            try:
                if self.executor.has_capacity(job):
                    self._start(job)
            except UsageError as fault:
                self.waiting.remove(job.name)
                self._failed(job, "failed", fault.render())

    def _start(self, job: Job) -> None:
        """Start a job, or take it from another sweep that has done it; one that another sweep runs now is left."""
        with self.folder.claiming():
            state = self.folder.state(job.name)
            if state is not None and state.owned and (state.pid, state.host) != (os.getpid(), platform.node()):
                return
            if state is not None and state.state == "done" and state.updated >= self.began:
                result = self.is_done(job)
                if result is not None:
                    self.waiting.remove(job.name)
                    self.outcome.by_other_sweeps[job.name] = str(result) if job.until == RESULT else ""
                    self.watcher.ended(job, self.outcome)
                    return
            self.tries[job.name] += 1
            self._write(job, "queued")
        self.waiting.remove(job.name)
        self.running[job.name] = job
        try:
            self.executor.submit([job], [self._attempt(job)])
        except (StorageError, OSError) as fault:
            fields: dict[str, Any] = {"error": f"no process was started: {fault}", "transient": True}
            if isinstance(fault, StorageError):
                fields = {"error": fault.render(), "storage": True}
            self._ended(JobState.now(job.name, "failed", self.executor.name, how="failed", **fields))

    def _attempt(self, job: Job) -> int:
        """Number of the latest attempt, those of earlier sweeps included."""
        return self.earlier.get(job.name, 0) + self.tries[job.name]

    def _ended(self, ended: JobState) -> None:
        job = self.running.pop(ended.job)
        for damage in ended.quarantined:
            self.progress.info(f"warning: {job.name}: {damage}")
        if ended.how == "done":
            self.outcome.done[job.name] = ended
            self.watcher.ended(job, self.outcome)
        elif self._deserves_another(job, ended):
            wait = PAUSES[min(self.tries[job.name], len(PAUSES)) - 1]
            self.progress.info(f"once more in {wait:.0f} s: {job.name}: {_first_line(ended.error)}")
            self._write(job, "queued", error=ended.error)
            self.waiting.add(job.name)
            self.pauses[job.name] = time.monotonic() + wait
        elif ended.storage:
            self.waiting.add(job.name)
            self._refused(ended.error)
        else:
            self._failed(job, ended.how, ended.error, seconds=ended.seconds)

    def _deserves_another(self, job: Job, ended: JobState) -> bool:
        if self.tries[job.name] > self.retries:
            return False
        if ended.how == "died":
            # It may have met a fault of the machine. A second death is its own.
            return self.tries[job.name] == 1
        return ended.how == "stopped" or (ended.how == "failed" and ended.transient)

    def _failed(self, job: Job, how: str, error: str, seconds: float | None = None) -> None:
        log = self.folder.log(job.name)
        self.outcome.failed[job.name] = Failure(job, how, error, self.tries[job.name], log, tuple(tail(log)))
        self._write(job, "failed", error=error, seconds=seconds)
        self.watcher.ended(job, self.outcome)
        reason, without = f"it needs {job.name}, which failed: {_first_line(error)}", {job.name}
        for one in self.jobs:
            if one.name in self.waiting and not without.isdisjoint(one.needs):
                without.add(one.name)
                self.waiting.remove(one.name)
                self.outcome.skipped[one.name] = reason
                self._write(one, "skipped", error=reason)
                self.watcher.ended(one, self.outcome)

    def _refused(self, error: str) -> None:
        if not self.outcome.storage:
            self.outcome.storage = error
            self.progress.info(f"no further job is begun: {_first_line(error)}")

    def _write(self, job: Job, state: State, *, error: str = "", seconds: float | None = None) -> None:
        attempts = max(1, self._attempt(job))
        written = JobState.now(job.name, state, self.executor.name, attempts=attempts, seconds=seconds, error=error)
        try:
            self.folder.write(written)
        except StorageError as fault:
            self._refused(fault.render())


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "no details"
