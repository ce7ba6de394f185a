"""An executor that runs one job after the other in the test's own process: nothing is started, nothing is limited."""

from __future__ import annotations

from genrec_unlearn_bench.executors.local import LocalProcesses
from genrec_unlearn_bench.executors.task import Assignment, perform
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import JobState, SweepFolder


class InProcess(LocalProcesses):
    """Runs one job after the other in this process; limits of minutes and memory are not enforced."""

    def __init__(self, folder: SweepFolder, *, work: str = "") -> None:
        super().__init__(folder, work=work)
        self._waiting: list[Assignment] = []

    def has_capacity(self, job: Job) -> bool:
        """Whether nothing waits to be done."""
        return not self._waiting

    def start(self, job: Job) -> None:
        """Take a job; ``ended`` does it."""
        self._waiting.append(Assignment(job=job, folder=self._folder.root, work=self._work))

    def ended(self, timeout: float) -> list[JobState]:
        """Do the next job, whatever time that takes. Raises KeyboardInterrupt where the user stops it."""
        if not self._waiting:
            return []
        given = self._waiting.pop(0)
        done = perform(given)
        if done.how == "stopped":
            raise KeyboardInterrupt
        return [done]
