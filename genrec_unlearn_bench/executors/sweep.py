"""The loop that feeds a grid's jobs to the processes of this machine until all are done that can be.

A job that fails stops nothing but what needs it. An interrupted sweep continues with the same call: what is done
follows from the store and the results, so the loop keeps nothing that could be lost.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from genrec_unlearn_bench.errors import StorageError, UsageError
from genrec_unlearn_bench.executors.local import LocalProcesses
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import STOPPED, JobState, State, SweepFolder
from genrec_unlearn_bench.progress import Progress

TICK = 0.5
"""Seconds between two looks at everything, what jobs take included, where nothing ends meanwhile."""
MAX_LOOKED_AT = 64
"""Ready jobs that are looked at before the rest is left for later; those that other sweeps run do not count."""
OWNERS_A_SECOND = 200
"""States of jobs of other sweeps that are read again in a second: the more there are, the less often each."""
PAUSES = (2.0, 60.0)
"""Seconds before the second and third attempt after a transient fault, so that what is down has time to come up."""


@dataclass
class SweepOutcome:
    """What came of a sweep.

    Attributes:
        done: Jobs that were done, here or meanwhile by another sweep.
        failed: Jobs that failed for good.
        skipped: Jobs that were not tried -> why.
        left: Jobs that were not begun or not finished, because the sweep was to stop.
        seconds: Wall-clock.
        storage: Why the file system refused, if it did; the sweep has ended for that.
        interrupted: Whether the user stopped it.
    """

    done: dict[str, JobState] = field(default_factory=dict)
    failed: dict[str, JobState] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    seconds: float = 0.0
    storage: str = ""
    interrupted: bool = False


@dataclass
class Sweep:
    """A sweep over jobs.

    Attributes:
        jobs: In the order in which they are to be tried, each behind what it needs.
        minutes: No job begins later than this after the start.
        ended: Called when a job is over: done here or elsewhere, failed, skipped.
        tick: Called about twice a second.
    """

    jobs: Sequence[Job]
    executor: LocalProcesses
    folder: SweepFolder
    progress: Progress
    minutes: float | None = None
    ended: Callable[[Job, SweepOutcome], None] = lambda job, outcome: None
    tick: Callable[[SweepOutcome], None] = lambda outcome: None

    def __post_init__(self) -> None:
        self.began = time.time()
        self.outcome = SweepOutcome()
        self.waiting = {job.name: job for job in self.jobs}
        self.running: dict[str, Job] = {}
        self.tries: Counter[str] = Counter()
        """Attempts in this sweep."""
        self.pauses: dict[str, float] = {}
        """When a job may be tried again, or looked at again if another sweep runs it."""

    def run(self) -> SweepOutcome:
        """Run the jobs. Returns what came of them, also where the user or the file system put an end to it.

        A second interrupt kills what still runs, and is raised.
        """
        outcome = self.outcome
        try:
            self._run_all()
        except StorageError as fault:
            self._refused(fault.render())
        except KeyboardInterrupt:
            outcome.interrupted = True
            self.progress.info("stopping: running jobs are asked to end (once more to kill them)")
        finally:
            self.executor.close()
        for name in self.running:
            self._write(name, "lost", error=STOPPED)
            self.progress.info(f"stopped: {name}")
        outcome.left = (*self.running, *self.waiting)
        outcome.seconds = time.time() - self.began
        return outcome

    def _run_all(self) -> None:
        while self.running or (self.waiting and not self._stops()):
            looked_at = 0
            for job in self._ready():
                try:
                    if self._stops() or not self.executor.has_capacity(job) or self._start(job):
                        looked_at += 1
                except UsageError as fault:
                    self._failed(self.waiting.pop(job.name), how="failed", error=fault.render())
                if looked_at == MAX_LOOKED_AT:
                    break
            self.tick(self.outcome)
            if self.running:
                for ended in self.executor.ended(TICK):
                    self._ended(ended)
            elif self.waiting:
                time.sleep(TICK / 2)

    def _stops(self) -> bool:
        late = self.minutes is not None and time.time() >= self.began + self.minutes * 60
        return late or bool(self.outcome.storage)

    def _ready(self) -> Iterator[Job]:
        """Jobs whose needs are done, in their order, without those that pause. What is no job here counts as done."""
        now = time.monotonic()
        for job in list(self.waiting.values()):
            needed = any(need in self.waiting or need in self.running for need in job.needs)
            # What was started or failed since is skipped with what needs it.
            if job.name in self.waiting and not needed and self.pauses.get(job.name, 0.0) <= now:
                yield job

    def _start(self, job: Job) -> bool:
        """Start a job, or take it from another sweep that has done it; one that another sweep runs now is left for a
        while. Returns whether it was started."""
        with self.folder.claiming():
            state = self.folder.state(job.name)
            if state is not None and state.owned and (state.pid, state.host) != (os.getpid(), platform.node()):
                self.pauses[job.name] = time.monotonic() + len(self.pauses) / OWNERS_A_SECOND
                return False
            self.pauses.pop(job.name, None)
            if state is not None and state.state == "done" and state.updated >= self.began and state.key == job.key:
                del self.waiting[job.name]
                self._done(job, state)
                return False
            self.tries[job.name] += 1
            self._write(job.name, "queued")
        self.running[job.name] = self.waiting.pop(job.name)
        try:
            self.executor.start(job)
        except (StorageError, OSError) as fault:
            storage = isinstance(fault, StorageError)
            error = fault.render() if isinstance(fault, StorageError) else f"no process was started: {fault}"
            fields: dict[str, Any] = {"error": error, "storage": storage, "transient": not storage}
            self._ended(JobState.now(job.name, "failed", how="failed", **fields))
        return True

    def _ended(self, ended: JobState) -> None:
        job, tries = self.running.pop(ended.job), self.tries[ended.job]
        for damage in ended.quarantined:
            self.progress.info(f"warning: {job.name}: {damage}")
        # A process that died may have met a fault of the machine. A second death is its own.
        again = ended.how == "stopped" or ended.transient or (ended.how, tries) == ("died", 1)
        if ended.how == "done":
            self._done(job, ended)
        elif again and tries <= len(PAUSES):
            wait = PAUSES[tries - 1]
            self.progress.info(f"once more in {wait:.0f} s: {job.name}: {ended.reason}")
            self._write(job.name, "queued", error=ended.error)
            self.waiting[job.name] = job
            self.pauses[job.name] = time.monotonic() + wait
        elif ended.storage:
            self.waiting[job.name] = job
            self._refused(ended.error)
        else:
            self._failed(job, how=ended.how, error=ended.error, seconds=ended.seconds)

    def _done(self, job: Job, state: JobState) -> None:
        self.outcome.done[job.name] = state
        self.ended(job, self.outcome)

    def _failed(self, job: Job, **fields: Any) -> None:
        failed = self.outcome.failed[job.name] = self._write(job.name, "failed", **fields)
        self.ended(job, self.outcome)
        reason, without = f"it needs {job.name}, which failed: {failed.reason}", {job.name}
        for one in list(self.waiting.values()):
            if not without.isdisjoint(one.needs):
                without.add(one.name)
                del self.waiting[one.name]
                self.outcome.skipped[one.name] = reason
                self._write(one.name, "skipped", error=reason)
                self.ended(one, self.outcome)

    def _refused(self, error: str) -> None:
        if not self.outcome.storage:
            self.outcome.storage = error
            self.progress.info(f"no further job is begun: {error.partition(chr(10))[0]}")

    def _write(self, name: str, state: State, **fields: Any) -> JobState:
        """Write the state of a job as far as the file system lets it; returns it."""
        written = JobState.now(name, state, attempts=self.folder.attempts(name), **fields)
        try:
            self.folder.write(written)
        except StorageError as fault:
            self._refused(fault.render())
        return written
