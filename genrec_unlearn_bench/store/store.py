"""The store of computed stages: ``<root>/stages/<name>/<key[:2]>/<key>/``, complete or not there at all.

A stage is computed into a temporary folder and renamed; a lock lets two processes compute it once; every file's digest
is checked when a stage is read, and a damaged stage is moved to ``quarantine/`` and computed anew. So after a kill, a
full disk or a damaged file the same command goes on where it stopped. Stages that are missing are looked up in a
second, read-only store (``$GENREC_UNLEARN_BENCH_SHARED_CACHE``), if there is one.

Locks end with their owner. On network file systems without ``flock`` a lock is a record that its owner renews every
half minute and that is void after a minute and a half (``filelock.SoftReadWriteLock``, which needs hard links). No
result depends on a lock: two processes that held one would only do the same work twice.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.files import atomic_folder, draft_prefix, guarded, make_folder, storage_error
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import (
    MANIFEST,
    StageManifest,
    StoredStage,
    read_manifest,
    read_recipe,
    verified,
    write_manifest,
)

if TYPE_CHECKING:
    from filelock import BaseFileLock

CACHE_VARIABLE = "GENREC_UNLEARN_BENCH_CACHE"
SHARED_VARIABLE = "GENREC_UNLEARN_BENCH_SHARED_CACHE"
OPTION = f"--cache-dir or ${CACHE_VARIABLE}"

STAGES = "stages"
"""Folder of a store that holds its stages."""
_NOT_STAGES = frozenset({STAGES, "quarantine", "unfinished", "sweeps", "embeddings", "pulling"})
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = re.compile(r"[0-9a-f]{2}")
_KEY = re.compile(r"[0-9a-f]{64}")

ACCESS_RESOLUTION = 60.0
"""Seconds after which another reading of a stage is noted (as its folder's time)."""

RENEWED = 30.0
"""Seconds between two renewals of a lock without ``flock``; after three missed ones it is taken over."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_FLOCK = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL})

Compute = Callable[[Path], Mapping[str, Any] | None]
"""Writes a stage's files into a folder; may return facts about the computation for the manifest (time, memory)."""


def default_cache() -> Path:
    """``$GENREC_UNLEARN_BENCH_CACHE``, else the user's cache folder."""
    import platformdirs

    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("genrec-unlearn-bench")


class Quarantined(NamedTuple):
    """A damaged stage that was moved to ``path``."""

    name: str
    key: str
    what: str
    path: Path


class StageStore:
    """Stages by name and key under one root folder, which is made on the first write.

    Args:
        progress: Receives a line when the store waits or finds damage.
        shared: A store that is read where this one has nothing, and never written; by default
            ``$GENREC_UNLEARN_BENCH_SHARED_CACHE``.
    """

    def __init__(self, root: Path, progress: Progress | None = None, *, shared: Path | None = None) -> None:
        self.root = root
        self.quarantined: list[Quarantined] = []
        """Damaged stages that this store has moved aside."""
        self._progress = progress or Progress()
        named = os.environ.get(SHARED_VARIABLE)
        self.shared = shared or (Path(named) if named else None)
        self._roots = list(dict.fromkeys(filter(None, (self.root, self.shared))))

    def folder(self, name: str, key: str) -> Path:
        """Where a stage of that key lies, or would lie."""
        return self.root / STAGES / name / key[:2] / key

    def work(self, name: str, key: str) -> Path:
        """Where the computation may keep what it needs to resume after a kill; removed once the stage is stored."""
        return self.root / "unfinished" / name / key

    def contains(self, name: str, key: str) -> bool:
        """Whether the stage has a manifest; nothing is read, for plans of thousands of stages."""
        return self._present(name, key) is not None

    def manifest(self, name: str, key: str) -> StageManifest | None:
        """Manifest of a stage, its files unread; None where it is missing or damaged."""
        folder = self._present(name, key)
        with suppress(CorruptArtefact):
            return read_manifest(folder) if folder is not None else None
        return None

    def recipe(self, name: str, key: str) -> dict[str, Any] | None:
        """Recipe of a stored stage's key; None where it is missing or damaged."""
        folder = self._present(name, key)
        with suppress(CorruptArtefact):
            return read_recipe(folder) if folder is not None else None
        return None

    def recipes(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and recipe of every stored stage of a name, those that cannot be read left out."""
        seen: set[str] = set()
        for root in self._roots:
            for path in sorted((root / STAGES / name).glob(f"*/*/{MANIFEST}")):
                key = path.parent.name
                if key not in seen:
                    seen.add(key)
                    with suppress(CorruptArtefact, StorageError):
                        yield key, read_recipe(path.parent)

    def find(self, name: str, key: str) -> StoredStage | None:
        """The stage if it is there and whole; a damaged one is moved to ``quarantine/`` and counts as missing.

        Raises StorageError for files that cannot be read (nothing is moved), CorruptArtefact for damage that stays.
        """
        try:
            if (found := self._read(name, key, self.folder(name, key))) is not None:
                return found
        except CorruptArtefact as fault:
            self.quarantine(name, key, fault)
        try:
            below = [root / STAGES / name / key[:2] / key for root in self._roots[1:]]
            return self._read(name, key, below[0]) if below else None
        except (CorruptArtefact, StorageError) as fault:
            self._progress.info(
                f"warning: the stage {name!r} in the shared store is not used: {fault.what}; "
                f"tell whoever keeps it: {fault.where}"
            )
            return None

    def make(self, name: str, key: str, recipe: Mapping[str, Any], compute: Compute) -> StoredStage:
        """The stage of a key, computed once by whichever process comes first, and stored with its ``recipe``.

        Raises StorageError where the cache cannot be written, and whatever ``compute`` raises; nothing is left then.
        """
        if (found := self.find(name, key)) is not None:
            return found
        folder = self.folder(name, key)
        waiting = f"waiting for another process that is computing the stage {name!r}"
        with guarded(folder, OPTION):
            make_folder(folder.parent)
            with held(folder, waiting=partial(self._progress.info, waiting)):
                # Another process may have finished it while this one waited.
                if (found := self.find(name, key)) is not None:
                    return found
                # Drafts of processes that were killed: whoever holds the lock is the only writer.
                for left in folder.parent.glob(f"{draft_prefix(folder)}*"):
                    shutil.rmtree(left, ignore_errors=True)
                with atomic_folder(folder, OPTION) as draft:
                    began = time.perf_counter()
                    facts = compute(draft) or {}
                    seconds = time.perf_counter() - began
                    write_manifest(draft, name, key, recipe, seconds=seconds, facts=facts)
                shutil.rmtree(self.work(name, key), ignore_errors=True)
        computed = self.find(name, key)
        if computed is None:
            raise CorruptArtefact(
                f"the stage {name!r} was damaged while it was written",
                where=str(folder),
                hint="check the disk, or choose another place with --cache-dir",
            )
        return replace(computed, cached=False)

    def quarantine(self, name: str, key: str, fault: CorruptArtefact) -> None:
        """Move a damaged stage to ``quarantine/``. Raises CorruptArtefact where that cannot be done."""
        folder = self.folder(name, key)
        place = self.root / "quarantine" / f"{name}-{key[:16]}-{uuid.uuid4().hex[:6]}"
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(place)
        except FileNotFoundError:
            return
        except OSError as refusal:
            raise CorruptArtefact(
                f"the stored stage {name!r} is damaged ({fault.what}) and cannot be moved aside: {refusal.strerror}",
                where=str(folder),
                hint="have its owner remove that folder, or choose a cache of your own with --cache-dir and read this "
                f"one through ${SHARED_VARIABLE}",
            ) from refusal
        self.quarantined.append(Quarantined(name, key, fault.what, place))
        self._progress.info(f"warning: the stored stage {name!r} is damaged ({fault.what}); moved to {place}")

    def _present(self, name: str, key: str) -> Path | None:
        for root in self._roots:
            folder = f"{root}/{STAGES}/{name}/{key[:2]}/{key}"
            if _is_there(f"{folder}/{MANIFEST}"):
                return Path(folder)
        return None

    def _read(self, name: str, key: str, folder: Path) -> StoredStage | None:
        """The stage if it is there, every byte checked. Raises CorruptArtefact or StorageError."""
        if not _is_there(folder):
            return None
        with guarded(folder, OPTION, verb="read"):
            found = verified(folder, name, key)
        # The folder's time tells `bench cache gc` when it was last read; others' folders keep theirs.
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > ACCESS_RESOLUTION:
                os.utime(folder)
        return found


@contextmanager
def held(target: Path, *, waiting: Callable[[], None], poll: float = 0.1) -> Iterator[None]:
    """Hold the lock of a target inside the block; ``waiting`` is called once if somebody else has it.

    Raises StorageError where the file system has no locks at all, OSError where it refuses the file.
    """
    release = try_lock(target)
    if release is None:
        waiting()
        release = try_lock(target, timeout=-1, poll=poll)
    try:
        yield
    finally:
        if release is not None:
            release()


def try_lock(target: Path, *, timeout: float = 0, poll: float = 0.1) -> Callable[[], None] | None:
    """Take the lock of a target; returns a function that releases it, or None where somebody else has it."""
    # Imported here: it imports asyncio, and a run whose result is there needs no lock.
    from filelock import Timeout

    path = _lock_path(target)
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
    path = _lock_path(target)
    if not path.exists() and not path.with_suffix(".lock.rw").exists():
        return True
    if (release := try_lock(target)) is not None:
        release()
    return release is not None


def _is_there(path: Path | str) -> bool:
    """Whether something has that name. Raises StorageError where the file system does not say."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as fault:
        raise storage_error(fault, Path(path), OPTION, verb="read") or fault from fault
    return True


def _lock_path(target: Path) -> Path:
    return target.parent / f".{target.name}.lock"


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


def stage_folders(root: Path) -> Iterator[tuple[str, Path]]:
    """Kind and folder of every stage, sorted."""
    for kind in _folders(root / STAGES, _NAME):
        for short in _folders(kind, _SHORT):
            for folder in _folders(short, _KEY):
                yield kind.name, folder


def old_stages(root: Path) -> list[Path]:
    """Stages in the layout of an older recipe, ``<root>/<kind>/<key[:2]>/<key>/``. Nothing reads them any more."""
    kinds = [folder for folder in _folders(root, _NAME) if folder.name not in _NOT_STAGES]
    return [folder for kind in kinds for short in _folders(kind, _SHORT) for folder in _folders(short, _KEY)]


def old_store_notice(root: Path) -> str | None:
    """One line for the user where a cache holds stages of an older recipe."""
    number = len(old_stages(root))
    if not number:
        return None
    return f"the cache holds {number} stages of an older recipe, which are not read: bench cache gc --old removes them"


def _folders(place: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        with os.scandir(place) as found:
            names = sorted(one.name for one in found if pattern.fullmatch(one.name) and one.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as fault:
        raise storage_error(fault, place, "--cache-dir", verb="read") or fault from fault
    return [place / name for name in names]
