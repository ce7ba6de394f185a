"""Where a job stands, for its log and its heartbeats: what it says, which stage it computes, some of its losses."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import Compute, StageStore, StoredStage

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.log import JobLog
    from genrec_unlearn_bench.store.keys import KeyContent

__all__ = ["JobProgress", "WatchedStore"]

T = TypeVar("T")

LOSS_SECONDS = 10.0
BAR_SECONDS = 60.0
"""How often losses, and how far a loop has come, go into the log."""

WARNING = "warning: "


class JobProgress(Progress):
    """Writes a job's log. What is said goes there at once, losses and loops now and then."""

    def __init__(self, log: JobLog) -> None:
        super().__init__()
        self._log = log
        self._stages: list[str] = []
        self._loop = ""
        self._told_losses: dict[str, float] = {}

    @property
    def standing(self) -> str:
        """The stage that is being computed and how far it has come; empty between stages. Any thread may ask."""
        stages, loop = self._stages, self._loop
        return " · ".join(part for part in (stages[-1] if stages else "", loop) if part)

    def info(self, text: str) -> None:
        if text.startswith(WARNING):
            self._log.write("warning", text.removeprefix(WARNING))
        else:
            self._log.write("say", text)

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        if total is None:
            total = len(sequence) if isinstance(sequence, Sized) else None
        outer, told = self._loop, time.monotonic()
        try:
            for done, part in enumerate(sequence):
                self._loop = f"{label} {done}/{total}" if total else f"{label} {done}"
                if time.monotonic() - told >= BAR_SECONDS:
                    told = time.monotonic()
                    self._log.write("steps", self._loop, stage=self._stages[-1] if self._stages else "")
                yield part
        finally:
            self._loop = outer

    def follow(self, stage: str, step: int, losses: Mapping[str, float]) -> None:
        finite = all(math.isfinite(value) for value in losses.values())
        now = time.monotonic()
        if finite and now - self._told_losses.get(stage, -math.inf) < LOSS_SECONDS:
            return
        self._told_losses[stage] = now
        if finite:
            self._log.write("steps", stage=stage, step=step, losses=losses)
        else:
            self._log.write("warning", "a loss is not finite", stage=stage, step=step, losses=losses)

    def begin(self, stage: str) -> None:
        """A stage is being computed from here on."""
        self._stages.append(stage)
        self._log.write("stage", "is computed", stage=stage)

    def end(self, stage: str) -> None:
        """It no longer is, whatever came of it."""
        self._stages.remove(stage)


class WatchedStore(StageStore):
    """A store that tells which stage is being computed, and logs each that was."""

    def __init__(self, root: Path, progress: JobProgress, log: JobLog) -> None:
        super().__init__(root, progress)
        self._job = progress
        self._log = log

    def stage(self, name: str, content: KeyContent, compute: Compute) -> StoredStage:
        def told(folder: Path) -> Mapping[str, Any] | None:
            self._job.begin(name)
            try:
                return compute(folder)
            finally:
                self._job.end(name)

        stored = super().stage(name, content, told)
        if not stored.cached:
            self._log.write("stage", f"stored as {stored.key} after {stored.seconds:.1f} s", stage=name)
        return stored
