"""Locks that end with their owner, whatever ends it: the operating system's where the file system has them.

On network file systems without ``flock`` a lock is a record that its owner renews every half minute; one that has not
changed for a minute and a half by the waiter's own clock belongs to nobody any more (``filelock.SoftReadWriteLock``,
which needs hard links). No result depends on a lock: stages appear by renaming, so two processes that held one lock
would only do the same work twice.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import BenchError, StorageError

if TYPE_CHECKING:
    from filelock import BaseFileLock

__all__ = ["SUFFIX", "held", "is_free", "lock_path", "try_lock"]

SUFFIX = ".lock"
RENEWED = 30.0
"""Seconds between two renewals of a lock without ``flock``; three of them missed, and it is taken over."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_FLOCK = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL})


def lock_path(target: Path) -> Path:
    """The lock of a folder that may not be there yet."""
    return target.parent / f".{target.name}{SUFFIX}"


@contextmanager
def held(target: Path, *, waiting: Callable[[], None], poll: float = 0.1) -> Iterator[None]:
    """Hold the lock of a target inside the block; waits for whoever has it.

    Args:
        waiting: Called once, when somebody else has it.

    Raises StorageError where the file system has no locks at all, OSError where it refuses the file.
    """
    release = try_lock(target)
    if release is None:
        waiting()
        release = try_lock(target, timeout=-1, poll=poll)
    if release is None:
        raise BenchError("an attempt without a timeout ended without the lock", where=str(target))
    try:
        yield
    finally:
        release()


def try_lock(target: Path, *, timeout: float = 0, poll: float = 0.1) -> Callable[[], None] | None:
    """Take the lock of a target; returns a function that releases it, or None where somebody else has it."""
    # Imported here: it brings asyncio along, and a run whose result is there needs no lock.
    from filelock import Timeout

    path = lock_path(target)
    lock = _system_lock(path)
    try:
        lock.acquire(timeout=timeout, poll_interval=poll)
    except Timeout:
        return None
    except OSError as fault:
        if fault.errno not in _NO_FLOCK:
            raise
        return _renewed_lock(path, timeout=timeout, poll=poll)

    def release() -> None:
        # While it is held: a process that opened the file before finds it without a name, and opens another.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        lock.release()

    return release


def is_free(target: Path) -> bool:
    """Whether nobody has the lock of a target at this moment."""
    if not lock_path(target).exists() and not lock_path(target).with_suffix(f"{SUFFIX}.rw").exists():
        return True
    release = try_lock(target)
    if release is None:
        return False
    release()
    return True


def _system_lock(path: Path) -> BaseFileLock:
    from filelock import FileLock

    # Without the fallback of filelock itself: its soft lock cannot tell that an owner on another machine is gone.
    return FileLock(path, fallback_to_soft=False)


def _renewed_lock(path: Path, *, timeout: float, poll: float) -> Callable[[], None] | None:
    from filelock import SoftFileLockProtocolError, SoftReadWriteLock, Timeout

    lock = SoftReadWriteLock(path, heartbeat_interval=RENEWED, poll_interval=poll, is_singleton=False)
    try:
        lock.acquire_write(timeout=timeout)
    except Timeout:
        lock.close()
        return None
    except (SoftFileLockProtocolError, OSError) as fault:
        lock.close()
        if isinstance(fault, OSError) and fault.errno not in _NO_LINKS:
            raise
        raise StorageError(
            f"this file system has neither locks nor hard links: {fault}",
            where=str(path.parent),
            hint="choose a cache on another file system (--cache-dir)",
        ) from fault

    def release() -> None:
        lock.release()
        lock.close()

    return release
