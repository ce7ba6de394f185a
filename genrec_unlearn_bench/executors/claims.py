"""Cores and GPUs of a machine that sweeps have taken, so that two sweeps in two terminals do not take the same ones.

A claim is a file lock in the system's folder for temporary files. It ends with its process, however that ends.
"""

from __future__ import annotations

import getpass
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["Claims"]


class Claims:
    """What this sweep has claimed of one kind of thing.

    Args:
        kind: ``core`` or ``gpu``.
        names: Everything that could be claimed.
        folder: Where the locks lie; the same for all sweeps of a user on a machine.
    """

    def __init__(self, kind: str, names: Iterable[str], folder: Path | None = None) -> None:
        self._kind = kind
        self._names = tuple(names)
        self._folder = folder or Path(tempfile.gettempdir()) / f"genrec-unlearn-bench-{_user()}"
        self._held: dict[str, FileLock] = {}

    def take(self, count: int) -> tuple[str, ...] | None:
        """Claim so many; None, and nothing is claimed, where fewer are free."""
        taken: list[str] = []
        for name in self._names:
            if len(taken) == count:
                break
            if name not in self._held and self._claim(name):
                taken.append(name)
        if len(taken) < count:
            self.give_back(taken)
            return None
        return tuple(taken)

    def give_back(self, names: Iterable[str]) -> None:
        """Let others have them."""
        for name in names:
            lock = self._held.pop(name, None)
            if lock is not None:
                lock.release()

    def _claim(self, name: str) -> bool:
        lock = FileLock(self._folder / f"{self._kind}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.lock")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError:
            # No place for locks: better to share a GPU than never to use it.
            with suppress(OSError):
                lock.release()
        self._held[name] = lock
        return True


def _user() -> str:
    try:
        return re.sub(r"[^A-Za-z0-9._-]", "_", getpass.getuser())
    except (KeyError, OSError):
        return "user"
