"""Folds the event files of writers that are gone into one, as a grid of thousands of jobs leaves thousands of files.

Safe while others write and read: a writer holds a lock on its file, so that only files nobody can add to are taken;
the new file appears whole, by a rename, and names those it stands for, so that no reader counts an event twice.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from genrec_unlearn_bench.files import atomic_bytes, guarded
from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.event_lines import SUFFIX, parsed
from genrec_unlearn_bench.grid.journal import host_name, in_order, locked
from genrec_unlearn_bench.grid.journal_reader import FOLDED, replaced_by

__all__ = ["compact"]

OPTION = "--cache-dir"

QUIET_SECONDS = 3600.0
"""How long a file of another machine has to be silent before it is folded; heartbeats come every minute or sooner."""

AT_ONCE = 500
"""Files folded together, each of which is open meanwhile; systems allow a process about a thousand."""


def compact(folder: Path) -> int:
    """Fold the files of dead writers. Returns how many files there are less; 0 where another process is at it.

    Of an attempt's heartbeats only the last is kept. Raises StorageError.
    """
    if not folder.is_dir():
        return 0
    with guarded(folder, OPTION):
        lock = FileLock(folder / ".compaction.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return 0
        try:
            before = _clear(folder)
            waiting = _plain(folder)
            while waiting:
                waiting = _fold(folder, waiting)
            folded = _folded(folder)
            if len(folded) > 1:
                _fold(folder, folded)
            return before - len(_plain(folder)) - len(_folded(folder))
        finally:
            lock.release()


def _clear(folder: Path) -> int:
    """Remove what an interrupted compaction had folded already. Returns how many files there were before."""
    folded = _folded(folder)
    before = len(folded) + len(_plain(folder))
    for file in folded:
        _remove(folder, replaced_by(file))
    return before


def _fold(folder: Path, files: list[Path]) -> list[Path]:
    """Fold the first armful of files that nobody writes to. Returns those that were not looked at."""
    with ExitStack() as stack:
        replaced: set[str] = set()
        events: list[Event] = []
        rest = list(files)
        while rest and len(replaced) < AT_ONCE:
            path = rest.pop(0)
            file = _taken(path, stack)
            if file is not None:
                replaced.add(path.name)
                events += _content(path, file)
        if not replaced:
            return []
        first = json.dumps({"replaces": sorted(replaced)})
        lines = [first, *(event.model_dump_json(exclude_defaults=True) for event in _worth_keeping(events))]
        target = folder / f"{FOLDED}{uuid.uuid4().hex[:12]}{SUFFIX}"
        atomic_bytes(target, ("\n".join(lines) + "\n").encode(), OPTION)
        _remove(folder, replaced)
    return rest


def _taken(path: Path, stack: ExitStack) -> IO[bytes] | None:
    """The file with its lock; None where it has a writer, or may have one."""
    elsewhere = not path.name.startswith((FOLDED, f"{host_name()}-"))
    # Some network file systems have locks that other machines do not see.
    if elsewhere and time.time() - path.stat().st_mtime < QUIET_SECONDS:
        return None
    # Opened for appending, as some network file systems lock only what may be written.
    file = path.open("a+b")
    if not locked(file):
        file.close()
        return None
    stack.enter_context(file)
    file.seek(0)
    return file


def _content(path: Path, file: IO[bytes]) -> list[Event]:
    text = file.read()
    if path.name.startswith(FOLDED):
        text = text.partition(b"\n")[2]
    # Without a last line that is only half there.
    return parsed(text[: text.rfind(b"\n") + 1])


def _worth_keeping(events: list[Event]) -> list[Event]:
    """All but those heartbeats that a later one of the same attempt has overtaken."""
    ordered = in_order(events)
    last = {(event.job, event.attempt, event.pid): index for index, event in enumerate(ordered) if _beat(event)}
    return [
        event
        for index, event in enumerate(ordered)
        if not _beat(event) or last[event.job, event.attempt, event.pid] == index
    ]


def _beat(event: Event) -> bool:
    return event.state == "alive"


def _plain(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith((".", FOLDED)))


def _folded(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{FOLDED}*{SUFFIX}"))


def _remove(folder: Path, names: Collection[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
