"""An executor that runs one job after the other in the test's own process: nothing is started, nothing is limited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.executors.base import Executor
from genrec_unlearn_bench.executors.task import Assignment, perform
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import JobState, SweepFolder


class InProcess(Executor):
    """Runs one job after the other in this process; limits of minutes and memory are not enforced."""

    name = "in-process"

    def __init__(self, folder: SweepFolder, cache: Path, *, work: str = "") -> None:
        self._folder = folder
        self._cache = cache
        self._work = work
        self._waiting: list[Assignment] = []

    def has_capacity(self, job: Job) -> bool:
        """Whether nothing waits to be done."""
        return not self._waiting

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs; ``ended`` does them."""
        place: dict[str, Any] = {"folder": self._folder.root, "cache": self._cache, "work": self._work}
        self._waiting += [Assignment(job=job, executor=self.name, **place) for job in jobs]

    def ended(self, timeout: float) -> list[JobState]:
        """Do the next job, whatever time that takes. Raises KeyboardInterrupt where the user stops it."""
        if not self._waiting:
            return []
        given = self._waiting.pop(0)
        done = perform(given)
        if done.how == "stopped":
            raise KeyboardInterrupt
        return [done]
