"""Does a job on this machine: in this process, or on several GPUs in processes that are started for it."""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.worker import Work, perform
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
from genrec_unlearn_bench.pipeline.shelf import Shelf

__all__ = ["do_here"]


def do_here(
    job: Job, folder: SweepFolder, cache: Path, *, attempt: int, executor: str, shelf: Shelf, work: Work | None
) -> Ended:
    """As ``worker.perform``. Raises StorageError where the processes' assignment cannot be written."""
    if job.resources.gpus > 1:
        # Imported here, as it builds on the worker and is seldom needed.
        from genrec_unlearn_bench.executors.launching import Assignment, launch

        return launch(Assignment(job=job, folder=folder.root, cache=cache, attempt=attempt, executor=executor))
    return perform(job, folder, cache, attempt=attempt, executor=executor, shelf=shelf, work=work)
