"""What happens in a sweep, as it is told by many processes on many machines: a folder of files, one for each writer.

Every process appends to a file of its own, ``<host>-<pid>-<random>.jsonl``, one system call a line, so nobody waits for
anybody and a killed process can spoil nothing but its own last line. That line ends its file and is skipped. A writer
holds a lock on its file as long as it lives, by which others know whether more may come (``compaction``).
"""

from __future__ import annotations

import os
import re
import socket
import threading
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.event_lines import SUFFIX
from genrec_unlearn_bench.grid.journal_reader import JournalReader

try:
    import fcntl
except ImportError:  # Windows has no such locks; files of writers are then never folded into one.
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from typing import IO

__all__ = ["Journal", "host_name", "in_order", "latest", "locked"]

OPTION = "--cache-dir"

_RANK = {"queued": 0, "running": 1, "alive": 2, "retried": 4}
"""Order of events that one clock tick cannot tell apart; whatever ends an attempt stands between the last two."""
_ENDED = 3


class Journal:
    """The events of one sweep. May be shared by threads, forked and pickled: each process opens a file of its own.

    Args:
        folder: ``SweepFolder.events``; created with the first event.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._file: IO[bytes] | None = None

    def __reduce__(self) -> tuple[type[Journal], tuple[Path]]:
        return Journal, (self.folder,)

    def append(self, event: Event) -> None:
        """Write one event; host and process are filled in where they are empty. Raises StorageError."""
        if os.getpid() != self._pid:
            # A forked child: the file and perhaps a held mutex are its parent's.
            self.close()
            self._pid, self._mutex = os.getpid(), threading.Lock()
        given = {name: value for name, value in (("host", host_name()), ("pid", self._pid)) if not getattr(event, name)}
        line = (event.model_copy(update=given).model_dump_json(exclude_defaults=True) + "\n").encode()
        with self._mutex, guarded(self.folder, OPTION):
            self._file = self._file or _opened(self.folder)
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError:
                # What is half-written has to be the end of its file.
                self.close()
                raise

    def events(self) -> list[Event]:
        """Everything that was told so far, by time; see ``JournalReader`` for a view that is refreshed."""
        return in_order(JournalReader(self.folder).fresh())

    def close(self) -> None:
        """Give the file back; a later event starts another one."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()


def latest(events: Iterable[Event]) -> dict[str, Event]:
    """The last event of every job."""
    found: dict[str, Event] = {}
    for event in events:
        known = found.get(event.job)
        if known is None or _order(event) >= _order(known):
            found[event.job] = event
    return found


def in_order(events: Iterable[Event]) -> list[Event]:
    """By time; of one moment, a beginning before a heartbeat before an end."""
    return sorted(events, key=_order)


def host_name() -> str:
    """This machine's name, as events and file names have it."""
    return re.sub(r"[^A-Za-z0-9.]+", "_", socket.gethostname()) or "host"


def locked(file: IO[bytes]) -> bool:
    """Take the lock of an event file while it is open; False where somebody else holds it, or there are no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _opened(folder: Path) -> IO[bytes]:
    """A new file of this process, unbuffered: one system call a write."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{host_name()}-{os.getpid()}-{uuid.uuid4().hex[:8]}{SUFFIX}"
    # Hidden until it is locked, so that nobody takes it for a dead writer's.
    hidden = folder / f".{name}"
    file = hidden.open("xb", buffering=0)
    locked(file)
    hidden.rename(folder / name)
    return file


def _order(event: Event) -> tuple[float, int]:
    return event.time, _RANK.get(event.state, _ENDED)
