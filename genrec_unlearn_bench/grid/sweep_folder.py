"""Where a sweep keeps its state: ``<cache>/sweeps/<grid>/``, readable from another terminal and another machine.

- ``grid.yaml``: the grid as it was given
- ``sweep.json``: where it was started, and the places of results and data
- ``jobs.jsonl``: the jobs of the latest call, one a line
- ``events/``: what happened, a file for each process (``event``)
- ``logs/``: one JSON-lines file for each job, all attempts one after the other
- ``slurm/``: what submitit keeps

All of it may be deleted at any time: what is done is known by the store and the results alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.grid.job import Job

__all__ = ["SweepFolder", "file_name"]

OPTION = "--cache-dir"


class SweepFolder:
    """The files of one sweep. Nothing is created before something is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, cache: Path, grid: str) -> SweepFolder:
        """The sweep of the grid of that name in a cache."""
        return cls(cache / "sweeps" / file_name(grid))

    @property
    def grid(self) -> Path:
        """The grid file, as it was given."""
        return self.root / "grid.yaml"

    @property
    def events(self) -> Path:
        """Folder of the event files."""
        return self.root / "events"

    @property
    def slurm(self) -> Path:
        """Folder for what submitit keeps."""
        return self.root / "slurm"

    def log(self, job: str) -> Path:
        """The log of a job: JSON lines, all attempts."""
        return self.root / "logs" / f"{file_name(job)}.jsonl"

    def write_jobs(self, jobs: Iterable[Job]) -> None:
        """Keep the jobs of this call. Raises StorageError."""
        atomic_text(self.root / "jobs.jsonl", "".join(f"{job.model_dump_json()}\n" for job in jobs), OPTION)

    def jobs(self) -> list[Job]:
        """The jobs of the latest call, in their order. Raises UsageError where there is none."""
        try:
            text = (self.root / "jobs.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UsageError(
                "no sweep of that grid was started with this cache", where=str(self.root), hint="bench sweep GRID"
            ) from None
        return [Job.model_validate(json.loads(line)) for line in text.splitlines() if line]


def file_name(name: str) -> str:
    """A job's name as a file's: readable, and distinct where two names differ in what a file's name cannot hold."""
    plain = re.sub(r"[^A-Za-z0-9._=+-]+", "_", name)
    if plain == name and len(plain) <= 100:
        return plain
    return f"{plain[:100]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
