"""What other sweeps of the same grid are doing, in another terminal or on another machine, by the events they write.

Nothing depends on it but time: the store lets two processes compute a stage once in any case. It only spares a process
waiting for a lock while there is something else to do.
"""

from __future__ import annotations

import time
from pathlib import Path

from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.journal import host_name, in_order
from genrec_unlearn_bench.grid.journal_reader import JournalReader
from genrec_unlearn_bench.grid.writers import Writers

__all__ = ["Elsewhere"]

SILENCE = 120.0
"""Seconds without a sign of life after which a job on another machine is taken to be over; heartbeats come every 20."""

_ACTIVE = ("queued", "running", "alive")


class Elsewhere:
    """Reads a sweep's events as they come. Build it before the plan is made, so that nothing falls in between."""

    def __init__(self, events: Path) -> None:
        self._reader = JournalReader(events)
        self._latest: dict[str, Event] = {}
        self._done: dict[str, Event] = {}
        for event in in_order(self._reader.fresh()):
            self._take(event)
        # What was done before the plan was made is the plan's to judge.
        self._done.clear()
        self._attempts = {name: event.attempt for name, event in self._latest.items()}

    def look(self) -> None:
        """Read what came since the last look."""
        for event in in_order(self._reader.fresh()):
            self._take(event)

    def done(self, job: str) -> Event | None:
        """The event by which a job was done since this was built, by whomever."""
        return self._done.get(job)

    def busy(self, job: str) -> bool:
        """Whether somebody is at a job now. Ask for jobs that this sweep does not run itself."""
        event = self._latest.get(job)
        if event is None or event.state not in _ACTIVE:
            return False
        if event.host == host_name():
            return Writers().alive(event)
        return time.time() - event.time < SILENCE

    def attempts(self, job: str) -> int:
        """Attempts at a job before this was built."""
        return self._attempts.get(job, 0)

    def stage(self, job: str) -> str:
        """What a running job said last of where it stands."""
        event = self._latest.get(job)
        return event.stage if event is not None and event.state in _ACTIVE else ""

    def forget(self, job: str) -> None:
        """An attempt of this sweep's own is over, whatever its events say."""
        self._latest.pop(job, None)

    def _take(self, event: Event) -> None:
        self._latest[event.job] = event
        if event.state == "done":
            self._done[event.job] = event
