"""What runs jobs: this process, a pool of processes on this machine, or a scheduler. One protocol for all of them.

An executor decides where and when a job runs and what it may use, never what it computes: every executor ends in
``worker.perform``, so that results do not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from genrec_unlearn_bench.grid.job import Job

__all__ = ["Ended", "Executor", "How"]

How = Literal["done", "failed", "died", "over time", "over memory", "stopped"]
"""``failed``: the job said what went wrong. ``died``: its process ended without a word. ``over …``: stopped at a limit
of its resources. ``stopped``: taken back by a scheduler or by the user; not the job's fault."""


@dataclass(frozen=True)
class Ended:
    """An attempt at a job that is over.

    Attributes:
        error: What went wrong, in the words of ``BenchError.render`` where the job said it.
        transient: Whether another attempt may not meet the fault.
        storage: Whether the file system refused; then no other job can go on either.
    """

    job: str
    how: How
    seconds: float
    result: str = ""
    error: str = ""
    transient: bool = False
    storage: bool = False


class Executor(Protocol):
    """Runs jobs whose needs are done."""

    name: str
    returns_at_once: bool
    """Whether ``submit`` takes all jobs with their needs and leaves: the sweep then ends, and goes on elsewhere."""

    def room_for(self, job: Job) -> bool:
        """Whether the job could start now beside those that run. Raises UsageError where it never could."""
        ...

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Start jobs (or hand them to the scheduler, which keeps to their ``needs``). Attempts count from 1."""
        ...

    def ended(self, timeout: float) -> list[Ended]:
        """Attempts that ended since the last call; waits up to ``timeout`` seconds for the first."""
        ...

    def close(self) -> None:
        """Stop what runs, politely first, and give everything back. Finished stages stay."""
        ...
