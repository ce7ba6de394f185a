"""Whether the process on this machine that wrote an event is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.event import Event

__all__ = ["Writers"]

COARSE = 1.0
"""Seconds by which the clock of processes may be ahead of that of events."""


class Writers:
    """Processes of this machine, each looked up once: make a new one for a new look."""

    def __init__(self) -> None:
        self._began: dict[int, float | None] = {}

    def alive(self, event: Event) -> bool:
        """Whether the writer of an event is there, and no later process under its number."""
        if event.pid not in self._began:
            try:
                self._began[event.pid] = psutil.Process(event.pid).create_time()
            except psutil.Error:
                self._began[event.pid] = None
        began = self._began[event.pid]
        return began is not None and began <= event.time + COARSE
