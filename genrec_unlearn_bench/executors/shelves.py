"""Which shelf a process uses for a job: one for all jobs of a dataset, a new one when the dataset changes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.pipeline.shelf import Shelf

__all__ = ["Shelves", "dataset_of"]


class Shelves:
    """Keeps the shelf of the latest dataset: a process does not read it again for each job, and never holds two."""

    def __init__(self) -> None:
        self._dataset = ""
        self._shelf = Shelf()

    def of(self, job: Job) -> Shelf:
        """The shelf for a job."""
        dataset = dataset_of(job)
        if dataset != self._dataset:
            self._dataset, self._shelf = dataset, Shelf()
        return self._shelf


def dataset_of(job: Job) -> str:
    """The dataset a job reads, and from where; the task's name where it cannot be told."""
    return f"{job.request.data_dir or ''}:{_dataset(job.request.task, job.request.data_dir)}"


@cache
def _dataset(task: str, data_dir: Path | None) -> str:
    try:
        return find_task(task, data_dir).dataset
    except BenchError:
        # The job itself will say what is wrong with its task.
        return task
