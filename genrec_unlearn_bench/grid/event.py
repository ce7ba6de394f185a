"""What happens to the jobs of a sweep, one event a line, in a file for each process that has something to say.

Nobody waits for anybody to write: every process appends to a file of its own, and a reader merges them by time. A line
that a killed process left half-written ends its file and is skipped.
"""

from __future__ import annotations

from typing import Literal

from genrec_unlearn_bench.config import StrictModel

__all__ = ["Event", "State"]

State = Literal["queued", "running", "alive", "done", "failed", "lost", "retried", "skipped"]
"""``alive``: the job still runs (heartbeat, with its stage). ``lost``: its process ended without a word, or was stopped
at a limit. ``retried``: it will be tried again. ``skipped``: something it needs has failed."""


class Event(StrictModel):
    """One thing that happened to one job."""

    time: float
    """Seconds since the epoch, by the clock of the machine that writes."""
    job: str
    state: State
    attempt: int = 1
    executor: str = ""
    host: str = ""
    pid: int = 0
    place: str = ""
    """A scheduler's own name for it (Slurm's job id)."""
    stage: str = ""
    """What is being computed."""
    seconds: float | None = None
    """Of the attempt, where it ended."""
    result: str = ""
    """The result's folder, where the job ended in one."""
    error: str = ""
    """What went wrong, as the user's errors say it: what, where, mend."""
    transient: bool = False
    """Whether the fault is one that another attempt may not meet."""
