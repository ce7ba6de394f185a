"""What killed processes leave in a store: drafts, work that nobody will take up again, locks that nobody holds.

A draft or a lock is an orphan only if its lock can be taken at this moment, so nothing is taken from a process that
still runs.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from genrec_unlearn_bench.store.inventory import kinds
from genrec_unlearn_bench.store.locks import SUFFIX, is_free, lock_path, try_lock

__all__ = ["Orphan", "orphans", "remove_orphan"]

HOUR = 3600.0
RESUMABLE_DAYS = 14.0
"""How long unfinished work waits for its command to be given again."""

_LOCK = re.compile(rf"\.([0-9a-f]{{64}}){re.escape(SUFFIX)}")


@dataclass(frozen=True)
class Orphan:
    """Something that nobody needs.

    Attributes:
        target: The stage's folder, there or not, whose lock says that nobody is at work.
    """

    kind: Literal["draft", "unfinished", "lock"]
    path: Path
    target: Path
    size: int


def orphans(root: Path, *, resumable_days: float = RESUMABLE_DAYS) -> Iterator[Orphan]:
    """Everything that may be swept.

    Args:
        resumable_days: Unfinished work that was touched since is kept, as its command may still be given again.
    """
    for kind in kinds(root):
        for short in sorted(path for path in kind.iterdir() if path.is_dir()):
            yield from _in_folder(short)
    for work in sorted((root / "unfinished").glob("*/*")):
        target = root / work.parent.name / work.name[:2] / work.name
        done = target.is_dir()
        if (done or _untouched(work, resumable_days * 24 * HOUR)) and is_free(target):
            yield Orphan("unfinished", work, target, _size(work))


def remove_orphan(orphan: Orphan) -> bool:
    """Remove it, its lock held meanwhile; returns whether that could be done."""
    if not orphan.target.parent.is_dir():
        shutil.rmtree(orphan.path, ignore_errors=True)
        return not orphan.path.exists()
    try:
        release = try_lock(orphan.target)
    except OSError:
        return False
    if release is None:
        return False
    try:
        if orphan.kind == "lock":
            # Whoever opened it before this finds it nameless once it has the lock, and opens another.
            with suppress(OSError):
                orphan.path.unlink(missing_ok=True)
        else:
            shutil.rmtree(orphan.path, ignore_errors=True)
            lock_path(orphan.target).unlink(missing_ok=True)
    finally:
        release()
    return not orphan.path.exists()


def _in_folder(short: Path) -> Iterator[Orphan]:
    with os.scandir(short) as found:
        names = sorted(one.name for one in found if one.name.startswith("."))
    for name in names:
        path = short / name
        locked = _LOCK.fullmatch(name)
        if locked is not None:
            target = short / locked.group(1)
            if is_free(target):
                yield Orphan("lock", path, target, 0)
        elif name.startswith(".draft-"):
            target = short / name.removeprefix(".draft-")[:24]
            holders = [short / match.group(1) for other in names if (match := _LOCK.fullmatch(other))]
            own = next((one for one in holders if one.name.startswith(target.name)), target)
            if _untouched(path, HOUR) and is_free(own):
                yield Orphan("draft", path, own, _size(path))


def _untouched(path: Path, seconds: float) -> bool:
    """Whether nothing in a folder has changed for so long."""
    times = [path.stat().st_mtime, *(one.stat().st_mtime for one in path.rglob("*"))]
    return time.time() - max(times) > seconds


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
