"""The jobs of a sweep that are not done yet: which may start, in which order, and what falls with one that fails."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from genrec_unlearn_bench.grid.job import Job

__all__ = ["Waiting"]


@dataclass
class Waiting:
    """Jobs that wait, in the order in which they are to be tried.

    A need that is no job of this sweep counts as done: what is done already is not scheduled.
    """

    jobs: Sequence[Job]
    _place: dict[str, int] = field(init=False)
    _open: dict[str, int] = field(init=False)
    _behind: dict[str, list[str]] = field(init=False)
    _ready: list[int] = field(init=False)
    _later: list[tuple[float, int]] = field(init=False, default_factory=list)
    _gone: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._place = {job.name: place for place, job in enumerate(self.jobs)}
        self._behind = defaultdict(list)
        self._open = {}
        for job in self.jobs:
            needs = {need for need in job.needs if need in self._place}
            self._open[job.name] = len(needs)
            for need in needs:
                self._behind[need].append(job.name)
        self._ready = [self._place[name] for name, count in self._open.items() if not count]

    def __len__(self) -> int:
        return len(self.jobs) - len(self._gone)

    def ready(self) -> Iterator[Job]:
        """Jobs whose needs are done, in their order; those that are to pause are not among them yet."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            heapq.heappush(self._ready, heapq.heappop(self._later)[1])
        # In order without sorting all of them for each look: mostly the first ones are taken.
        heap = list(self._ready)
        while heap:
            yield self.jobs[heapq.heappop(heap)]

    def pausing(self) -> float | None:
        """Seconds until the next pause is over; None where no job pauses."""
        return max(0.0, self._later[0][0] - time.monotonic()) if self._later else None

    def take(self, job: Job) -> None:
        """A job starts."""
        self._ready.remove(self._place[job.name])
        heapq.heapify(self._ready)
        self._gone.add(job.name)

    def again(self, job: Job, pause: float) -> None:
        """A job that was taken is to be tried again after ``pause`` seconds."""
        self._gone.discard(job.name)
        heapq.heappush(self._later, (time.monotonic() + pause, self._place[job.name]))

    def done(self, job: Job) -> None:
        """A job that was taken is done: what needed nothing else may start."""
        for name in self._behind[job.name]:
            self._open[name] -= 1
            if not self._open[name] and name not in self._gone:
                heapq.heappush(self._ready, self._place[name])

    def failed(self, job: Job) -> list[Job]:
        """A job that was taken has failed: what cannot be done without it, which waits no more."""
        fallen: list[Job] = []
        names = [job.name]
        while names:
            for name in self._behind[names.pop()]:
                if name not in self._gone:
                    self._gone.add(name)
                    fallen.append(self.jobs[self._place[name]])
                    names.append(name)
        return sorted(fallen, key=lambda one: self._place[one.name])

    def left(self) -> list[Job]:
        """Jobs that have not been taken, in their order."""
        return [job for job in self.jobs if job.name not in self._gone]
