"""The folder of a sweep, ``<cache>/sweeps/<grid>/``: readable from any terminal and machine that sees it.

- ``sweep.json``: how the latest call was made, and where grid file, results and data lie
- ``jobs.jsonl``: the jobs of the latest call, one a line
- ``jobs/<job>.json``: state of a job, replaced atomically
- ``logs/<job>.log``: log of a job, all attempts one after the other
- ``slurm/``: what submitit keeps

All of it may be deleted while nothing runs: what is done follows from the store and the results alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import ConfigDict

from genrec_unlearn_bench.config import StrictModel, one_of, read_json
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_text, guarded
from genrec_unlearn_bench.grid.spec import Job, read_content
from genrec_unlearn_bench.store.store import held

OPTION = "--cache-dir"

SILENCE = 120.0
"""Seconds without a heartbeat after which a job on another machine counts as lost; heartbeats come every 10."""

How = Literal["", "done", "failed", "died", "over time", "over memory", "stopped"]
"""How an attempt ended. ``failed``: the job raised an error. ``died``: its process ended without reporting. ``over …``:
stopped at a limit of its resources. ``stopped``: taken back by a scheduler or by the user; not the job's fault."""

State = Literal["queued", "running", "done", "failed", "skipped", "lost"]
"""``queued``: a sweep or a scheduler will start it. ``skipped``: something it needs has failed. ``lost``: its process
ended, or was stopped, before the job did."""

STOPPED = "stopped before it was done; finished stages are kept"
CLOCK_STEP = 1.0
"""Seconds by which the clock of processes may be ahead of the file's."""


class JobState(StrictModel):
    """State of one job, or the end of an attempt at it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    job: str
    key: str = ""
    """Of what was made, once it is done: another sweep may have made it from something else."""
    state: State
    attempts: int = 1
    place: str = ""
    """Slurm's own name for it; empty elsewhere."""
    host: str = ""
    pid: int = 0
    """Process that runs it, or the sweep that has queued it."""
    started: float | None = None
    """When the attempt began, in seconds since the epoch; None where it has not."""
    updated: float
    """When this was written."""
    stage: str = ""
    """The stage that is being computed, and how far it has come."""
    how: How = ""
    """How the last attempt ended, once it is over."""
    seconds: float | None = None
    """Wall-clock of the last attempt, once it is over."""
    result: str = ""
    """Folder of the result, for a cell."""
    error: str = ""
    diverged: bool = False
    transient: bool = False
    """Whether another attempt may not meet the fault."""
    storage: bool = False
    """Whether the file system refused; then no other job can go on either."""
    quarantined: tuple[str, ...] = ()
    """Damaged stages that the attempt found and computed again."""

    @classmethod
    def now(cls, job: str, state: State, **fields: Any) -> JobState:
        """A state written by this process now."""
        return cls(job=job, state=state, host=platform.node(), pid=os.getpid(), updated=time.time(), **fields)

    @property
    def reason(self) -> str:
        """The first line of its error."""
        return self.error.partition("\n")[0] or "no details"

    def ends(self, began: float) -> bool:
        """Whether this is the end of the attempt that began then."""
        return self.updated >= began and self.state in ("done", "failed", "lost") and self.how != ""

    @property
    def owned(self) -> bool:
        """Whether a living process runs the job, or is going to: by its process on this machine, elsewhere by its
        heartbeat. Jobs in a scheduler's hands count as owned until the scheduler says otherwise."""
        here = self.host == platform.node()
        lives = bool(self.place) or (self.process_alive if here else time.time() - self.updated < SILENCE)
        return self.state in ("queued", "running") and lives

    @property
    def process_alive(self) -> bool:
        """Whether the process is there; a later process of the same number is another one."""
        try:
            return psutil.Process(self.pid).create_time() <= self.updated + CLOCK_STEP
        except psutil.Error:
            return False


class SweepFacts(StrictModel):
    """One call of ``bench grid run``; a later call of the same grid replaces it. What is empty was not named."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    started: float = 0.0
    """Seconds since the epoch."""
    command: str = ""
    """The call, as it can be repeated."""
    file: str = ""
    """The grid's file."""
    results_dir: str = ""
    data_dir: str = ""
    tuned_dir: str = ""
    device: str = ""
    tensorboard: str = ""
    cells: int = 0
    """Cells of the grid that can be run."""
    done: int = 0
    """Of those, how many were done before this call; they have no job."""


class SweepFolder:
    """The files of one sweep. Nothing is created before something is written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.slurm = root / "slurm"
        self._read: dict[Path, tuple[tuple[int, int], JobState | None]] = {}

    @classmethod
    def of(cls, cache: Path, grid: str) -> SweepFolder:
        """The sweep of the grid of that name in a cache."""
        return cls(cache / "sweeps" / _file_name(grid))

    @property
    def cache(self) -> Path:
        """The cache that it belongs to."""
        return self.root.parents[1]

    def facts(self) -> SweepFacts:
        """How the latest call was made, as far as that can be read."""
        return read_json(SweepFacts, self.root / "sweep.json") or SweepFacts()

    def begin(self, facts: SweepFacts, jobs: Iterable[Job]) -> None:
        """Keep how this call was made, and its jobs. Raises StorageError."""
        atomic_text(self.root / "jobs.jsonl", "".join(f"{job.model_dump_json()}\n" for job in jobs), OPTION)
        atomic_text(self.root / "sweep.json", facts.model_dump_json(indent=2) + "\n", OPTION)

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs of the latest call as plain JSON: checking 50,000 requests would take a minute."""
        try:
            return [json.loads(line) for line in (self.root / "jobs.jsonl").read_bytes().splitlines()]
        except (OSError, ValueError):
            return []

    def log(self, job: str) -> Path:
        return self.root / "logs" / f"{_file_name(job)}.log"

    def state_file(self, job: str) -> Path:
        return self.root / "jobs" / f"{_file_name(job)}.json"

    def state(self, job: str) -> JobState | None:
        """State of a job; None where nothing is known."""
        return read_json(JobState, self.state_file(job))

    def attempts(self, job: str) -> int:
        """Attempts at a job that have begun, of earlier sweeps too."""
        state = self.state(job)
        return state.attempts if state is not None else 0

    def states(self) -> dict[str, JobState]:
        """States of all jobs by name; files that have not changed since the last call are not read again."""
        # Drafts have another ending.
        for path in (self.root / "jobs").glob("*.json"):
            with suppress(OSError):
                status = path.stat()
                signature = (status.st_ino, status.st_mtime_ns)
                if path not in self._read or self._read[path][0] != signature:
                    self._read[path] = (signature, read_json(JobState, path))
        return {state.job: state for _, state in self._read.values() if state is not None}

    def write(self, state: JobState) -> None:
        """Replace the state of a job: readers see the old file or the new one. Raises StorageError."""
        # Not forced to the disk: after a power cut nothing runs, and what is done follows from the store.
        atomic_text(self.state_file(state.job), state.model_dump_json(indent=1) + "\n", OPTION, synced=False)

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Exclude other sweeps of the grid while a job's state is read and it is queued. Raises StorageError."""
        with ExitStack() as stack:
            with guarded(self.root, OPTION):
                self.root.mkdir(parents=True, exist_ok=True)
                stack.enter_context(held(self.root / "claim", waiting=lambda: None))
            yield


def sweeps(cache: Path) -> list[SweepFolder]:
    """All sweeps of a cache, the one that was active last first."""

    def last_change(folder: SweepFolder) -> float:
        return max(path.stat().st_mtime for path in (folder.root / "jobs.jsonl", folder.root / "jobs") if path.exists())

    found = [SweepFolder(path.parent) for path in sorted(cache.glob("sweeps/*/jobs.jsonl"))]
    return sorted(found, key=last_change, reverse=True)


def find_sweep(cache: Path, grid: str | None) -> SweepFolder:
    """The sweep of a grid, by the grid's name or file; the one that was active last where none is named.

    Raises UsageError where the cache has none, or the file is no grid.
    """
    known = {folder.root.name: folder for folder in sweeps(cache)}
    if not known:
        hint = "bench grid run GRID, or name a --cache-dir"
        raise UsageError("no sweep was started with this cache", where=str(cache), hint=hint)
    if grid is None:
        return next(iter(known.values()))
    return known[one_of("sweep", str(read_content(Path(grid)).get("name")) if Path(grid).is_file() else grid, known)]


def tail(path: Path, lines: int = 12) -> list[str]:
    """The last lines of a log; none where there is no log."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def _file_name(name: str) -> str:
    """A name as that of a file: readable, and distinct where two names differ in what a file name cannot hold."""
    plain = re.sub(r"[^A-Za-z0-9._=+-]+", "_", name)
    if plain == name and len(plain) <= 100:
        return plain
    return f"{plain[:100]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
