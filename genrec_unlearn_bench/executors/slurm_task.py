"""What Slurm runs for a job: a call that holds names and paths alone, and finds everything else in the sweep's folder.

Submitit pickles it; there is nothing in it of any user's making. Signals are made polite: the job is interrupted, gives
its locks back and keeps its last snapshot; then it is queued again where that helps.
"""

from __future__ import annotations

import os
import pkgutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.launching import Assignment, launch
from genrec_unlearn_bench.executors.slurm_folder import kept_job
from genrec_unlearn_bench.executors.worker import perform
from genrec_unlearn_bench.grid.event import Event, State
from genrec_unlearn_bench.grid.journal import Journal, latest
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

if TYPE_CHECKING:
    from submitit.helpers import DelayedSubmission

    from genrec_unlearn_bench.grid.job import Job

__all__ = ["EXECUTOR", "SlurmTask"]

EXECUTOR = "slurm"
PATIENCE = 60.0
"""Seconds for which the last word of another node may not be seen yet: NFS keeps folders in mind for up to a minute."""
LOOK = 2.0

_LIVE = ("queued", "running", "alive", "retried")


@dataclass(frozen=True)
class SlurmTask:
    """One job, as it is submitted.

    Attributes:
        folder: Root of the sweep's folder.
        job: Its name.
        attempt: Number of its first attempt under this submission.
        restarts: How often it may be queued again after a time limit.
        restarted: How often it was.
        work: ``module:function`` that does a job, in place of ``runs.grid.work:do``.
    """

    folder: str
    job: str
    cache: str
    attempt: int = 1
    restarts: int = 0
    restarted: int = 0
    work: str = ""

    def __call__(self) -> None:
        """Do the job. Ends the process with 1 where it is not done, so that Slurm's own tools say so too."""
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        folder = SweepFolder(Path(self.folder))
        job = kept_job(folder, self.job)
        fault = _missing_need(job, Journal(folder.events))
        if fault:
            self._tell("skipped", error=fault, transient=True)
            sys.exit(1)
        with _polite() as heard:
            try:
                ended = self._perform(job, folder)
            except KeyboardInterrupt:
                # It came before the work, or after it.
                ended = Ended(self.job, "stopped", 0.0)
        if ended.how == "stopped":
            self._stopped(heard)
        if ended.how != "done":
            sys.exit(1)

    def checkpoint(self) -> DelayedSubmission:
        """What submitit is to queue in its place: the same, with one restart less."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(replace(self, restarts=self.restarts - 1, restarted=self.restarted + 1))

    def _perform(self, job: Job, folder: SweepFolder) -> Ended:
        place, attempt = _place(), self._attempt()
        if job.resources.gpus > 1:
            return launch(
                Assignment(
                    job=job, folder=folder.root, cache=Path(self.cache), attempt=attempt, executor=EXECUTOR, place=place
                )
            )
        work = pkgutil.resolve_name(self.work) if self.work else None
        return perform(job, folder, Path(self.cache), attempt=attempt, executor=EXECUTOR, place=place, work=work)

    def _stopped(self, heard: _Heard) -> None:
        """Say why, and have the job queued again where its time was over and more time helps."""
        limit = _limit_signal()
        if heard.number != limit:
            self._tell("lost", error="stopped by Slurm: cancelled, or taken back for another job", transient=True)
            return
        if self.restarts > 0:
            self._tell("retried", error="its time was over; it is queued again, and goes on from what is stored")
            # Submitit's own way of saying it to the scheduler; ends this process.
            heard.before[limit](limit, None)
        self._tell(
            "lost",
            error="its time was over, and it may not be queued again\n"
            "  hint:  raise `minutes` for it, in the grid's resources or in the file of --slurm (or `restarts` there)",
        )

    def _attempt(self) -> int:
        """Slurm counts its own restarts, which come after preemptions and lost nodes too."""
        counted = os.environ.get("SLURM_RESTART_COUNT", "")
        return self.attempt + (int(counted) if counted.isdigit() else self.restarted)

    def _tell(self, state: State, *, error: str, transient: bool = False) -> None:
        journal = Journal(SweepFolder(Path(self.folder)).events)
        journal.append(
            Event(
                time=time.time(),
                job=self.job,
                state=state,
                attempt=self._attempt(),
                executor=EXECUTOR,
                place=_place(),
                error=error,
                transient=transient,
            )
        )
        journal.close()


@dataclass
class _Heard:
    """Which signal came, and what would have been done about each."""

    before: dict[int, Any]
    number: int | None = None


@contextmanager
def _polite() -> Iterator[_Heard]:
    """Make the signals of a time limit, a preemption and a cancellation an interrupt of what is being done."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        first, heard.number = heard.number is None, heard.number or number
        # Slurm may send several; what is already leaving is not interrupted again.
        if first:
            raise KeyboardInterrupt

    watched = (_limit_signal(), signal.SIGTERM)
    heard = _Heard({number: signal.getsignal(number) for number in watched})
    for number in watched:
        signal.signal(number, interrupt)
    try:
        yield heard
    finally:
        for number in watched:
            signal.signal(number, signal.SIG_IGN)


def _limit_signal() -> int:
    """The signal that announces a time limit; submitit's choice."""
    from submitit.core.job_environment import JobEnvironment

    return int(getattr(signal, f"SIG{JobEnvironment.USR_SIG}"))


def _place() -> str:
    """The scheduler's name for this job; empty where submitit has not started it."""
    from submitit import JobEnvironment

    try:
        return str(JobEnvironment().job_id)
    except RuntimeError:
        return ""


def _missing_need(job: Job, journal: Journal) -> str:
    """Why the job cannot be done, by the last words of what it waited for; empty where it can."""
    until = time.monotonic() + PATIENCE
    while True:
        told = latest(journal.events())
        words = {need: told[need] for need in job.needs if need in told}
        for need, event in words.items():
            if event.state in ("failed", "lost", "skipped"):
                reason = event.error.splitlines()[0] if event.error else event.state
                return f"needs {need!r}, which was not done: {reason}"
        silent = [need for need, event in words.items() if event.state in _LIVE]
        if not silent:
            return ""
        if time.monotonic() > until:
            return f"needs {silent[0]!r}, which ended without a word (see `bench status`)"
        time.sleep(LOOK)
