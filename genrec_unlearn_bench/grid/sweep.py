"""Feeds the jobs of a grid to an executor until all are done that can be.

A job starts when what it needs is done and there is room for it, in the schedule's order as far as room allows. One
that fails stops nothing but what needs it. What is interrupted is taken up by the same call: what is done is known by
the store and the results, so this keeps nothing that could be lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import BenchError, StorageError, UsageError
from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.transient import pause
from genrec_unlearn_bench.grid.elsewhere import Elsewhere
from genrec_unlearn_bench.grid.event import Event, State
from genrec_unlearn_bench.grid.log import tail
from genrec_unlearn_bench.grid.waiting import Waiting

if TYPE_CHECKING:
    from genrec_unlearn_bench.executors.executor import Executor
    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.grid.journal import Journal
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
    from genrec_unlearn_bench.progress import Progress

__all__ = ["Failure", "SweepOutcome", "Watcher", "sweep"]

TICK = 1.0
"""Seconds between two looks at everything, where nothing ends meanwhile."""

OVERTAKEN = 16
"""Jobs that may start before one for which there is no room yet; then the machine is kept free for it."""

LOOKED_AT = 64
"""Jobs without room that are looked at before the rest is left for later."""

TAIL = 12
"""Lines of a failed job's log in the outcome."""


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
    """What a sweep came to.

    Attributes:
        done: Jobs that are done, by name.
        elsewhere: Jobs that another sweep has done meanwhile.
        failed: Jobs that failed for good.
        skipped: Jobs that were not tried -> why.
        left: Jobs that were not begun, because the sweep was to stop.
        handed: Jobs that a scheduler has taken.
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


@dataclass(frozen=True)
class Watcher:
    """Whom a sweep tells how it goes.

    Attributes:
        ended: A job is done, here or elsewhere, or has failed, or is skipped.
        tick: Called about once a second with the jobs that run and since when (``time.monotonic``).
    """

    ended: Callable[[Job, SweepOutcome], None] = lambda job, outcome: None
    tick: Callable[[dict[str, float], SweepOutcome, Elsewhere], None] = lambda running, outcome, elsewhere: None


def sweep(
    jobs: Sequence[Job],
    executor: Executor,
    folder: SweepFolder,
    journal: Journal,
    progress: Progress,
    *,
    retries: int = 2,
    minutes: float | None = None,
    elsewhere: Elsewhere | None = None,
    is_done: Callable[[Job], Path | None] = lambda job: None,
    watcher: Watcher | None = None,
    pause: Callable[[int], float] = pause,
) -> SweepOutcome:
    """Do jobs. Returns what came of them, also where the user or the file system put an end to it.

    Args:
        jobs: In the order in which they are to be tried.
        retries: Further attempts after a transient fault.
        minutes: No job begins later than this after the start.
        elsewhere: What other sweeps do, read since before the jobs were planned.
        is_done: The result of a job that another sweep says it has done, if that is so; None else.
        pause: Seconds to wait after an attempt of that number.
    """
    running = _Sweep(
        executor,
        folder,
        journal,
        progress,
        Waiting(jobs),
        retries=retries,
        ends=None if minutes is None else time.monotonic() + minutes * 60,
        elsewhere=elsewhere or Elsewhere(folder.events),
        is_done=is_done,
        watcher=watcher or Watcher(),
        pause=pause,
    )
    return running.run()


@dataclass
class _Sweep:
    """One sweep while it runs."""

    executor: Executor
    folder: SweepFolder
    journal: Journal
    progress: Progress
    waiting: Waiting
    retries: int
    ends: float | None
    elsewhere: Elsewhere
    is_done: Callable[[Job], Path | None]
    watcher: Watcher
    pause: Callable[[int], float]
    outcome: SweepOutcome = field(default_factory=SweepOutcome)
    running: dict[str, Job] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    overtaken: Counter[str] = field(default_factory=Counter)
    blocked: bool = False

    def run(self) -> SweepOutcome:
        began = time.monotonic()
        try:
            if self.executor.returns_at_once:
                self._hand_over()
            else:
                self._feed_all()
        except StorageError as fault:
            self._refused(fault.render())
        except KeyboardInterrupt:
            self.outcome.interrupted = True
            self.progress.info("stopping: jobs that run are told to end (once more to kill them)")
        finally:
            if not self.executor.returns_at_once:
                self.executor.close()
        for name, job in self.running.items():
            self._tell(job, "lost", error="stopped with the sweep; finished stages are kept")
            self.progress.info(f"stopped: {name}")
        if not self.outcome.handed:
            self.outcome.left = (*self.running, *(job.name for job in self.waiting.left()))
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    def _hand_over(self) -> None:
        jobs = self.waiting.left()
        attempts = [self._attempt(job) for job in jobs]
        self.executor.submit(jobs, attempts)
        self.outcome.handed = len(jobs)

    def _feed_all(self) -> None:
        while True:
            self.elsewhere.look()
            self._feed()
            self.watcher.tick(self.began, self.outcome, self.elsewhere)
            if not self.running and self._over():
                return
            if self.running:
                ended = self.executor.ended(TICK)
            else:
                ended = []
                time.sleep(min(TICK, self.waiting.pausing() or TICK))
            for one in ended:
                self._ended(one)

    def _over(self) -> bool:
        """Whether nothing will start any more."""
        if self._stops() or not len(self.waiting):
            return True
        if self.waiting.pausing() is not None or self.blocked:
            return False
        if next(self.waiting.ready(), None) is None:
            names = ", ".join(job.name for job in self.waiting.left()[:5])
            raise BenchError(
                f"jobs wait for each other: {names}",
                hint="this is a fault of the suite: please report it with the grid file",
            )
        return False

    def _stops(self) -> bool:
        return bool(self.outcome.storage) or (self.ends is not None and time.monotonic() > self.ends)

    def _feed(self) -> None:
        """Start what can start."""
        self.blocked = False
        without_room: list[str] = []
        for job in self.waiting.ready():
            if self._stops():
                return
            if self._settled_elsewhere(job):
                continue
            if self.elsewhere.busy(job.name):
                self.blocked = True
                continue
            try:
                room = self.executor.room_for(job)
            except UsageError as fault:
                self.waiting.take(job)
                self._failed(job, "failed", fault.render())
                continue
            if room:
                self.overtaken.update(without_room)
                self._start(job)
                continue
            self.blocked = True
            without_room.append(job.name)
            if self.overtaken[job.name] >= OVERTAKEN or len(without_room) >= LOOKED_AT:
                return

    def _settled_elsewhere(self, job: Job) -> bool:
        """Whether another sweep has done a job meanwhile; then it is not done again."""
        if self.elsewhere.done(job.name) is None or job.until != "result":
            return False
        result = self.is_done(job)
        if result is None:
            return False
        self.waiting.take(job)
        self.waiting.done(job)
        self.outcome.elsewhere[job.name] = str(result)
        self.watcher.ended(job, self.outcome)
        return True

    def _start(self, job: Job) -> None:
        attempt = self._attempt(job)
        self.waiting.take(job)
        self.running[job.name], self.began[job.name] = job, time.monotonic()
        # Before it runs, so that another sweep leaves it alone from now on.
        self._tell(job, "queued")
        try:
            self.executor.submit([job], [attempt])
        except StorageError as fault:
            self._ended(Ended(job.name, "failed", 0.0, error=fault.render(), storage=True))
        except OSError as fault:
            # The system starts no further process just now.
            self._ended(Ended(job.name, "failed", 0.0, error=f"no process was started: {fault}", transient=True))

    def _attempt(self, job: Job) -> int:
        """The number of an attempt, earlier sweeps' included."""
        self.attempts[job.name] += 1
        return self.elsewhere.attempts(job.name) + self.attempts[job.name]

    def _ended(self, ended: Ended) -> None:
        job = self.running.pop(ended.job)
        self.began.pop(ended.job, None)
        self.elsewhere.forget(ended.job)
        if ended.how == "done":
            self.waiting.done(job)
            self.outcome.done[job.name] = ended
            self.watcher.ended(job, self.outcome)
        elif ended.storage and not (ended.transient and self._deserves_another(job, ended)):
            self.waiting.again(job, 0.0)
            self._refused(ended.error)
        elif self._deserves_another(job, ended):
            wait = self.pause(self.attempts[job.name])
            self.progress.info(f"once more in {wait:.0f} s: {job.name}: {_first_line(ended.error)}")
            self._tell(job, "retried", error=ended.error, transient=True)
            self.waiting.again(job, wait)
        else:
            self._failed(job, ended.how, ended.error, seconds=ended.seconds)

    def _deserves_another(self, job: Job, ended: Ended) -> bool:
        if self.attempts[job.name] > self.retries:
            return False
        if ended.how == "died":
            # It may have met a fault of the machine. A second death is its own.
            return self.attempts[job.name] == 1
        return ended.how == "stopped" or (ended.how == "failed" and ended.transient)

    def _failed(self, job: Job, how: str, error: str, seconds: float | None = None) -> None:
        log = self.folder.log(job.name)
        attempts = self.attempts[job.name]
        self.outcome.failed[job.name] = Failure(job, how, error, attempts, log, tuple(tail(log, TAIL)))
        self._tell(job, "failed", error=error, seconds=seconds)
        self.watcher.ended(job, self.outcome)
        for fallen in self.waiting.failed(job):
            reason = f"it needs {job.name}, which failed: {_first_line(error)}"
            self.outcome.skipped[fallen.name] = reason
            self._tell(fallen, "skipped", error=reason)
            self.watcher.ended(fallen, self.outcome)

    def _refused(self, error: str) -> None:
        if not self.outcome.storage:
            self.outcome.storage = error
            self.progress.info(f"no further job is begun: {_first_line(error)}")

    def _tell(self, job: Job, state: State, **facts: Any) -> None:
        """Append an event; a refusal of the file system stops the sweep, but not what is being done about it."""
        attempt = max(1, self.elsewhere.attempts(job.name) + self.attempts[job.name])
        event = Event(
            time=time.time(), job=job.name, state=state, attempt=attempt, executor=self.executor.name, **facts
        )
        try:
            self.journal.append(event)
        except StorageError as fault:
            self._refused(fault.render())


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "no details"
