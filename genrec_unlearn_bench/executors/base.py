"""The executor protocol, and the loop that feeds jobs to an executor until all are done that can be.

A job starts when what it needs is done and there is capacity for it. One that fails stops nothing but what needs it.
An interrupted sweep continues with the same call: what is done follows from the store and the results, so the loop
keeps nothing that could be lost.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from genrec_unlearn_bench.errors import BenchError, StorageError, UsageError
from genrec_unlearn_bench.grid.schedule import RESULT, Job
from genrec_unlearn_bench.grid.state import JobState, State, SweepFolder, tail

if TYPE_CHECKING:
    from genrec_unlearn_bench.progress import Progress

__all__ = ["Ended", "Executor", "Failure", "How", "SweepOutcome", "Watcher", "run_jobs"]

TICK = 1.0
"""Seconds between two looks at everything, where nothing ends meanwhile."""
MAX_LOOKED_AT = 64
"""Ready jobs without capacity that are looked at before the rest is left for later."""
TAIL = 12
"""Lines of a failed job's log in the outcome."""
PAUSES = (2.0, 10.0, 60.0, 300.0)
"""Seconds before the second, third … attempt, so that what is down has time to come up."""
STOPPED = "stopped before it was done; finished stages are kept"

How = Literal["done", "failed", "died", "over time", "over memory", "stopped"]
"""``failed``: the job raised an error. ``died``: its process ended without reporting. ``over …``: stopped at a limit of
its resources. ``stopped``: taken back by a scheduler or by the user; not the job's fault."""


@dataclass(frozen=True)
class Ended:
    """An attempt at a job that is over.

    Attributes:
        result: Folder of the result, for a cell.
        diverged: Whether the cell's training or unlearning diverged.
        transient: Whether another attempt may not meet the fault.
        storage: Whether the file system refused; then no other job can go on either.
        quarantined: Damaged stages that were found in the store, moved aside and computed again.
    """

    job: str
    how: How
    seconds: float
    result: str = ""
    error: str = ""
    diverged: bool = False
    transient: bool = False
    storage: bool = False
    quarantined: tuple[str, ...] = ()


class Executor(Protocol):
    """Runs jobs whose needs are done. Decides where and when a job runs, never what it computes."""

    name: str
    detached: bool
    """Whether ``submit`` hands over all jobs with their needs; the sweep then ends, and the jobs run elsewhere."""

    def has_capacity(self, job: Job) -> bool:
        """Whether the job could start now beside those that run. Raises UsageError where it never could."""
        ...

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Start jobs, or hand them to the scheduler, which keeps to their ``needs``. Attempts count from 1."""
        ...

    def ended(self, timeout: float) -> list[Ended]:
        """Attempts that ended since the last call; waits up to ``timeout`` seconds for the first."""
        ...

    def close(self, hurry: threading.Event | None = None) -> None:
        """Stop what runs, politely until ``hurry`` is set, and release everything. Finished stages stay."""
        ...


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
        elsewhere: Jobs that another sweep has done meanwhile -> result.
        failed: Jobs that failed for good.
        skipped: Jobs that were not tried -> why.
        left: Jobs that were not begun or not finished, because the sweep was to stop.
        handed: Number of jobs that a scheduler has taken.
        seconds: Wall-clock.
        storage: Why the file system refused, if it did; the sweep has ended for that.
        interrupted: Whether the user stopped it.
    """

    done: dict[str, Ended] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
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
        return len(self.done) + len(self.elsewhere) + len(self.failed) + len(self.skipped)


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
    pause: Callable[[int], float] = lambda attempt: PAUSES[min(attempt, len(PAUSES)) - 1],
    hurry: threading.Event | None = None,
) -> SweepOutcome:
    """Run jobs. Returns what came of them, also where the user or the file system put an end to it.

    Args:
        jobs: In the order in which they are to be tried.
        retries: Further attempts after a transient fault.
        minutes: No job begins later than this after the start.
        is_done: The result of a job that another sweep claims to have done, if that is so; None else.
        pause: Seconds to wait after an attempt of that number.
        hurry: Once set, an interrupted sweep kills what still runs.
    """
    ends = None if minutes is None else time.monotonic() + minutes * 60
    sweep = _Sweep(executor, folder, progress, _Waiting(jobs), retries, ends, is_done, watcher or Watcher(), pause)
    return sweep.run(hurry)


class _Waiting:
    """Jobs that wait, in their order. A need that is no job of this sweep counts as done."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = {job.name: job for job in jobs}
        self._order = {job.name: place for place, job in enumerate(jobs)}
        self._needs = {job.name: {need for need in job.needs if need in self.jobs} for job in jobs}
        self._behind: dict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            for need in self._needs[job.name]:
                self._behind[need].append(job)
        self.pausing: dict[str, float] = {}

    def ready(self) -> Iterator[Job]:
        """Jobs whose needs are done, without those that pause."""
        now = time.monotonic()
        self.pausing = {name: until for name, until in self.pausing.items() if until > now}
        for name, job in list(self.jobs.items()):
            if not self._needs[name] and name not in self.pausing:
                yield job

    def again(self, job: Job, pause: float) -> None:
        """Try a job that was taken again after ``pause`` seconds, at its old place in the order."""
        self.pausing[job.name] = time.monotonic() + pause
        jobs = [*self.jobs.values(), job]
        self.jobs = {one.name: one for one in sorted(jobs, key=lambda one: self._order[one.name])}

    def done(self, job: Job) -> None:
        """A job is done: what needed nothing else may start."""
        for one in self._behind[job.name]:
            self._needs[one.name].discard(job.name)

    def failed(self, job: Job) -> Iterator[Job]:
        """A job has failed: take out what cannot be done without it."""
        for one in self._behind[job.name]:
            if self.jobs.pop(one.name, None) is not None:
                yield one
                yield from self.failed(one)


@dataclass
class _Sweep:
    """One sweep while it runs."""

    executor: Executor
    folder: SweepFolder
    progress: Progress
    waiting: _Waiting
    retries: int
    ends: float | None
    is_done: Callable[[Job], Path | None]
    watcher: Watcher
    pause: Callable[[int], float]
    outcome: SweepOutcome = field(default_factory=SweepOutcome)
    running: dict[str, Job] = field(default_factory=dict)
    tries: Counter[str] = field(default_factory=Counter)
    numbers: dict[str, int] = field(default_factory=dict)
    blocked: bool = False
    began: float = field(default_factory=time.time)

    def run(self, hurry: threading.Event | None) -> SweepOutcome:
        try:
            if self.executor.detached:
                self._hand_over()
            else:
                self._feed_all()
        except StorageError as fault:
            self._refused(fault.render())
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            self.progress.info("stopping: jobs that run are told to end (once more to kill them)")
        finally:
            if not self.executor.detached:
                self.executor.close(hurry)
        for name, job in self.running.items():
            self._write(job, "lost", error="stopped with the sweep; finished stages are kept")
            self.progress.info(f"stopped: {name}")
        if not self.outcome.handed:
            self.outcome.left = (*self.running, *self.waiting.jobs)
        self.outcome.seconds = time.time() - self.began
        return self.outcome

    def _hand_over(self) -> None:
        jobs = list(self.waiting.jobs.values())
        self.executor.submit(jobs, [self._next_attempt(job, self.folder.state(job.name)) for job in jobs])
        self.outcome.handed = len(jobs)

    def _feed_all(self) -> None:
        while True:
            self._feed()
            self.watcher.tick(self.outcome)
            if not self.running and self._over():
                return
            if not self.running:
                time.sleep(TICK / 4)
                continue
            for ended in self.executor.ended(TICK):
                self._ended(ended)

    def _over(self) -> bool:
        """Whether nothing will start any more."""
        if self._stops() or not self.waiting.jobs:
            return True
        if self.blocked or next(self.waiting.ready(), None) is not None or self.waiting.pausing:
            return False
        raise BenchError(
            f"jobs wait for each other: {', '.join(list(self.waiting.jobs)[:5])}",
            hint="this is a fault of the suite: please report it with the grid file",
        )

    def _stops(self) -> bool:
        return bool(self.outcome.storage) or (self.ends is not None and time.monotonic() > self.ends)

    def _feed(self) -> None:
        """Start what can start."""
        self.blocked = False
        without_capacity = 0
        for job in self.waiting.ready():
            if self._stops() or without_capacity >= MAX_LOOKED_AT:
                return
            try:
                capacity = self.executor.has_capacity(job)
            except UsageError as fault:
                del self.waiting.jobs[job.name]
                self._failed(job, "failed", fault.render())
                continue
            if not capacity:
                self.blocked = True
                without_capacity += 1
            elif not self._start(job):
                self.blocked = True

    def _start(self, job: Job) -> bool:
        """Start a job, or take it from another sweep that has done it; False where another one runs it now."""
        with self.folder.claiming():
            state = self.folder.state(job.name)
            if state is not None and state.owned and not (state.pid == os.getpid() and state.host == platform.node()):
                return False
            if state is not None and state.state == "done" and state.updated >= self.began:
                result = self.is_done(job)
                if result is not None:
                    del self.waiting.jobs[job.name]
                    self.waiting.done(job)
                    self.outcome.elsewhere[job.name] = str(result) if job.until == RESULT else ""
                    self.watcher.ended(job, self.outcome)
                    return True
            attempt = self._next_attempt(job, state)
            self._write(job, "queued")
        del self.waiting.jobs[job.name]
        self.running[job.name] = job
        try:
            self.executor.submit([job], [attempt])
        except StorageError as fault:
            self._ended(Ended(job=job.name, how="failed", seconds=0.0, error=fault.render(), storage=True))
        except OSError as fault:
            # The system starts no further process just now.
            error = f"no process was started: {fault}"
            self._ended(Ended(job=job.name, how="failed", seconds=0.0, error=error, transient=True))
        return True

    def _next_attempt(self, job: Job, state: JobState | None) -> int:
        """The number of an attempt, those of earlier sweeps included."""
        self.tries[job.name] += 1
        before = state.attempts if state is not None else 0
        self.numbers[job.name] = self.numbers.get(job.name, before) + 1
        return self.numbers[job.name]

    def _ended(self, ended: Ended) -> None:
        job = self.running.pop(ended.job)
        for damage in ended.quarantined:
            self.progress.info(f"warning: {job.name}: {damage}")
        if ended.how == "done":
            self.waiting.done(job)
            self.outcome.done[job.name] = ended
            self.watcher.ended(job, self.outcome)
        elif self._deserves_another(job, ended):
            wait = self.pause(self.tries[job.name])
            self.progress.info(f"once more in {wait:.0f} s: {job.name}: {_first_line(ended.error)}")
            self._write(job, "queued", error=ended.error)
            self.waiting.again(job, wait)
        elif ended.storage:
            self.waiting.again(job, 0.0)
            self._refused(ended.error)
        else:
            self._failed(job, ended.how, ended.error, seconds=ended.seconds)

    def _deserves_another(self, job: Job, ended: Ended) -> bool:
        if self.tries[job.name] > self.retries:
            return False
        if ended.how == "died":
            # It may have met a fault of the machine. A second death is its own.
            return self.tries[job.name] == 1
        return ended.how == "stopped" or (ended.how == "failed" and ended.transient)

    def _failed(self, job: Job, how: str, error: str, seconds: float | None = None) -> None:
        log = self.folder.log(job.name)
        self.outcome.failed[job.name] = Failure(job, how, error, self.tries[job.name], log, tuple(tail(log, TAIL)))
        self._write(job, "failed", error=error, seconds=seconds)
        self.watcher.ended(job, self.outcome)
        for fallen in self.waiting.failed(job):
            reason = f"it needs {job.name}, which failed: {_first_line(error)}"
            self.outcome.skipped[fallen.name] = reason
            self._write(fallen, "skipped", error=reason)
            self.watcher.ended(fallen, self.outcome)

    def _refused(self, error: str) -> None:
        if not self.outcome.storage:
            self.outcome.storage = error
            self.progress.info(f"no further job is begun: {_first_line(error)}")

    def _write(self, job: Job, state: State, *, error: str = "", seconds: float | None = None) -> None:
        """Write a job's state; a refusal of the file system stops the sweep."""
        written = JobState(
            job=job.name,
            state=state,
            attempts=max(1, self.numbers.get(job.name, 1)),
            executor=self.executor.name,
            host=platform.node(),
            pid=os.getpid(),
            updated=time.time(),
            seconds=seconds,
            error=error,
        )
        try:
            self.folder.write(written)
        except StorageError as fault:
            self._refused(fault.render())


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "no details"
