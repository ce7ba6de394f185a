"""Where the jobs of a sweep stand, by their list and by what was told of them; kept up to date while it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic_core import from_json

from genrec_unlearn_bench.grid.journal import in_order
from genrec_unlearn_bench.grid.journal_reader import JournalReader

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.event import Event
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["JobStanding", "ListedJob", "StandingJobs"]


@dataclass(frozen=True)
class ListedJob:
    """Of a job, what its standing is shown with: of 50,000 whole requests only the check takes a minute."""

    name: str
    task: str
    backbone: str
    method: str
    until: str
    seconds: float | None


@dataclass
class JobStanding:
    """What was told of one job.

    Attributes:
        last: The latest event.
        began: When the latest attempt began to run; None where it has not.
    """

    last: Event
    began: float | None = None


class StandingJobs:
    """The jobs of a sweep's latest call, and the last word on each."""

    def __init__(self, folder: SweepFolder) -> None:
        self._list = folder.root / "jobs.jsonl"
        self._written: float | None = None
        self._reader = JournalReader(folder.events)
        self.listed: dict[str, ListedJob] = {}
        self.told: dict[str, JobStanding] = {}

    def look(self) -> None:
        """Read what is new."""
        with _no_collection():
            self._look()

    def _look(self) -> None:
        try:
            written = self._list.stat().st_mtime
        except FileNotFoundError:
            written = None
        if written is not None and written != self._written:
            self.listed = {job.name: job for job in _listed(self._list.read_bytes())}
            self._written = written
        for event in in_order(self._reader.fresh()):
            self._take(event)

    def _take(self, event: Event) -> None:
        known = self.told.get(event.job)
        if known is None:
            known = self.told[event.job] = JobStanding(event)
        elif event.time >= known.last.time:
            if event.attempt != known.last.attempt:
                known.began = None
            known.last = event
        if event.state in ("running", "alive") and known.began is None:
            known.began = event.time


@contextmanager
def _no_collection() -> Iterator[None]:
    """Leave the garbage collector out: looking for cycles among 200,000 events takes two fifths of the reading."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _listed(content: bytes) -> Iterable[ListedJob]:
    for line in content.splitlines():
        job = from_json(line)
        request = job["request"]
        yield ListedJob(
            name=job["name"],
            task=request["task"],
            backbone=request["backbone"],
            method=request["method"],
            until=job["until"],
            seconds=job.get("seconds"),
        )
