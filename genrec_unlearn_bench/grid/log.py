"""The log of a job: JSON lines, all attempts one after the other, readable while it is written and after any kill.

One system call a line, so that two processes at the same job do not cut each other's lines; a line that a killed
process left half-written is closed by the next attempt and skipped by readers.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.files import guarded

__all__ = ["JobLog", "LogLine", "read_log", "tail"]

OPTION = "--cache-dir"
ENOUGH = 1 << 16
"""Bytes at a log's end that are read for its tail."""

Kind = Literal["begin", "say", "stage", "steps", "warning", "error", "end"]


class LogLine(StrictModel):
    """One line of a job's log."""

    time: float
    """Seconds since the epoch, by the clock of the machine that writes."""
    attempt: int
    event: Kind
    text: str = ""
    stage: str = ""
    step: int | None = None
    losses: dict[str, float | None] = Field(default_factory=dict)
    """Losses of one step; null where one was not finite."""

    def told(self) -> str:
        """The line as people read it: the time of day, and what was said."""
        when = time.strftime("%H:%M:%S", time.localtime(self.time))
        values = ", ".join(
            f"{name} {'nan' if value is None else f'{value:.4g}'}" for name, value in self.losses.items()
        )
        step = "" if self.step is None else f"step {self.step}"
        parts = [self.stage, step, values, self.text]
        kind = f"{self.event}: " if self.event in ("warning", "error") else ""
        return f"{when} {kind}{' '.join(part for part in parts if part)}"


class JobLog:
    """Appends to the log of one job. Threads may share it."""

    def __init__(self, path: Path, attempt: int) -> None:
        self.path = path
        self.attempt = attempt
        self._mutex = threading.Lock()
        self._handle: int | None = None

    def write(
        self,
        event: Kind,
        text: str = "",
        *,
        stage: str = "",
        step: int | None = None,
        losses: Mapping[str, float] | None = None,
    ) -> None:
        """Append one line; it is in the file when this returns. Raises StorageError."""
        values = {name: value if math.isfinite(value) else None for name, value in (losses or {}).items()}
        line = LogLine(
            time=time.time(), attempt=self.attempt, event=event, text=text, stage=stage, step=step, losses=values
        )
        with self._mutex, guarded(self.path, OPTION):
            if self._handle is None:
                self._handle = _opened(self.path)
            content = (line.model_dump_json(exclude_defaults=True) + "\n").encode()
            while content:
                content = content[os.write(self._handle, content) :]

    def close(self) -> None:
        """Give the file back; a later line opens it again."""
        with self._mutex:
            if self._handle is not None:
                with suppress(OSError):
                    os.close(self._handle)
            self._handle = None


def read_log(path: Path) -> list[LogLine]:
    """All whole lines of a log; none where there is no log."""
    try:
        return _lines(path.read_bytes())
    except FileNotFoundError:
        return []


def tail(path: Path, lines: int = 12) -> list[str]:
    """The last lines of a log, as people read them. A traceback's own lines count."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - ENOUGH))
            content = file.read()
    except OSError:
        return []
    told = [row for line in _lines(content) for row in line.told().splitlines()]
    return told[-lines:]


def _lines(content: bytes) -> list[LogLine]:
    found = []
    for row in content.split(b"\n"):
        # A torn line, or the half of one at the beginning of a tail.
        with suppress(ValidationError):
            found.append(LogLine.model_validate_json(row))
    return found


def _opened(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    size = os.fstat(handle).st_size
    if size and hasattr(os, "pread") and os.pread(handle, 1, size - 1) != b"\n":
        os.write(handle, b"\n")
    return handle
