"""The jobs that were handed to Slurm, one file each in the sweep's folder: ``slurm/jobs/``.

``jobs.jsonl`` holds those of the latest call alone, and thousands of them; a job that waits in a queue outlives calls,
and reads nothing but its own file.
"""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder, file_name

__all__ = ["keep_job", "kept_job"]

OPTION = "--cache-dir"


def keep_job(folder: SweepFolder, job: Job) -> None:
    """Write a job as it will be found on the node. Raises StorageError."""
    atomic_text(_path(folder, job.name), job.model_dump_json(), OPTION)


def kept_job(folder: SweepFolder, name: str) -> Job:
    """The job of that name, as it was kept last. Raises UsageError where it is not there."""
    try:
        return Job.model_validate_json(_path(folder, name).read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"the job {name!r} is not in the sweep's folder",
            where=str(folder.slurm),
            hint=f"use a {OPTION} that this node sees as well, and start the sweep again",
        ) from None


def _path(folder: SweepFolder, name: str) -> Path:
    return folder.slurm / "jobs" / f"{file_name(name)}.json"
