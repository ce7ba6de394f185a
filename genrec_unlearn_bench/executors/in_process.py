"""Runs jobs in this very process, one after the other: the simplest executor, and the one to debug with.

The limits of a job (minutes, memory) need a process of their own that can be stopped; here they are not enforced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.here import do_here
from genrec_unlearn_bench.executors.shelves import Shelves
from genrec_unlearn_bench.executors.worker import Work
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["InProcess"]


class InProcess:
    """Takes one job at a time and does it when it is asked what has ended."""

    name = "in-process"
    returns_at_once = False

    def __init__(self, folder: SweepFolder, cache: Path, *, work: Work | None = None) -> None:
        self._folder = folder
        self._cache = cache
        self._work = work
        self._shelves = Shelves()
        self._waiting: deque[tuple[Job, int]] = deque()

    def room_for(self, job: Job) -> bool:
        """Whether nothing waits to be done."""
        return not self._waiting

    def submit(self, jobs: Sequence[Job], attempts: Sequence[int]) -> None:
        """Take jobs; they are done by ``ended``."""
        self._waiting.extend(zip(jobs, attempts, strict=True))

    def ended(self, timeout: float) -> list[Ended]:
        """Do the next job, whatever time that takes. Raises KeyboardInterrupt where the user stops it."""
        if not self._waiting:
            return []
        job, attempt = self._waiting.popleft()
        shelf = self._shelves.of(job)
        done = do_here(
            job, self._folder, self._cache, attempt=attempt, executor=self.name, shelf=shelf, work=self._work
        )
        if done.how == "stopped":
            raise KeyboardInterrupt
        return [done]

    def close(self) -> None:
        """Forget what was not begun."""
        self._waiting.clear()
