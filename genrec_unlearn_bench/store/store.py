"""The store of computed stages: ``<root>/stages/<name>/<key[:2]>/<key>/``, complete or not there at all.

A stage is computed into a temporary folder and renamed; a lock lets two processes compute it once; every file's digest
is checked when a stage is read, and a damaged stage is moved to ``quarantine/`` and computed anew. So after a kill, a
full disk or a damaged file the same command goes on where it stopped. Stages that are missing are looked up in a
second, read-only store (``$GENREC_UNLEARN_BENCH_SHARED_CACHE``), if there is one.

Locks are the operating system's and end with their owner; on file systems without them filelock falls back to a file
that names its owner. No result depends on a lock: two processes that held one would only do the same work twice.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.files import atomic_folder, draft_prefix, guarded, storage_error
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

CACHE_VARIABLE = "GENREC_UNLEARN_BENCH_CACHE"
SHARED_VARIABLE = "GENREC_UNLEARN_BENCH_SHARED_CACHE"
OPTION = f"--cache-dir or ${CACHE_VARIABLE}"

STAGES = "stages"
"""Folder of a store that holds its stages."""

ACCESS_RESOLUTION = 60.0
"""Seconds after which another reading of a stage is noted (as its folder's time)."""

Compute = Callable[[Path], Mapping[str, Any] | None]
"""Writes a stage's files into a folder; may return facts about the computation for the manifest (time, memory)."""


def default_cache() -> Path:
    """``$GENREC_UNLEARN_BENCH_CACHE``, else the user's cache folder."""
    import platformdirs

    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("genrec-unlearn-bench")


class StageStore:
    """Stages by name and key under one root folder, which is made on the first write.

    ``shared`` (default: ``$GENREC_UNLEARN_BENCH_SHARED_CACHE``) is read where this one has nothing, and never written.
    """

    def __init__(self, root: Path, progress: Progress | None = None, *, shared: Path | None = None) -> None:
        self.root = root
        self.quarantined: list[str] = []
        """A line for each damaged stage that this store has moved aside."""
        self._progress = progress or Progress()
        named = os.environ.get(SHARED_VARIABLE)
        self.shared = shared or (Path(named) if named else None)
        self._searched = list(dict.fromkeys(filter(None, (self.root, self.shared))))

    def folder(self, name: str, key: str) -> Path:
        """Where a stage of that key lies, or would lie."""
        return self._roots(name)[0] / STAGES / name / key[:2] / key

    def work(self, name: str, key: str) -> Path:
        """Where the computation may keep what it needs to resume after a kill; removed once the stage is stored."""
        return self._roots(name)[0] / "unfinished" / name / key

    def contains(self, name: str, key: str) -> bool:
        """Whether the stage has a manifest; nothing is read, for plans of thousands of stages."""
        return self._present(name, key) is not None

    def manifest(self, name: str, key: str) -> StageManifest | None:
        """Manifest of a stage, its files unread; None where it is missing or damaged."""
        folder = self._present(name, key)
        with suppress(CorruptArtefact):
            return read_manifest(folder) if folder is not None else None
        return None

    def recipes(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and recipe of every stored stage of a name, those that cannot be read left out."""
        paths = [path for root in self._roots(name) for path in sorted((root / STAGES / name).glob(f"*/*/{MANIFEST}"))]
        # A stage of one's own goes before the same one in the shared store.
        for key, folder in {path.parent.name: path.parent for path in reversed(paths)}.items():
            with suppress(CorruptArtefact, StorageError):
                yield key, read_recipe(folder)

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
            below = [root / STAGES / name / key[:2] / key for root in self._roots(name)[1:]]
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
            folder.parent.mkdir(parents=True, exist_ok=True)
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
                    made = write_manifest(draft, name, key, recipe, seconds=seconds, facts=facts)
                shutil.rmtree(self.work(name, key), ignore_errors=True)
        return StoredStage(name, folder, key, made.digest, made.seconds, False, made.facts)

    def quarantine(self, name: str, key: str, fault: CorruptArtefact) -> None:
        """Move a damaged stage to ``quarantine/``. Raises CorruptArtefact where that cannot be done."""
        folder = self.folder(name, key)
        place = self._roots(name)[0] / "quarantine" / f"{name}-{key[:16]}-{uuid.uuid4().hex[:6]}"
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
        self.quarantined.append(f"the stored stage {name!r} was damaged ({fault.what})")
        self._progress.info(f"warning: {self.quarantined[-1]}; moved to {place}")

    def _roots(self, name: str) -> list[Path]:
        """The roots in which stages of a name are looked up; they are written to the first."""
        return self._searched

    def _present(self, name: str, key: str) -> Path | None:
        for root in self._roots(name):
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

    Raises OSError where the file system refuses the file.
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
    from filelock import FileLock, Timeout

    path = target.parent / f".{target.name}.lock"
    lock = FileLock(path)
    try:
        lock.acquire(timeout=timeout, poll_interval=poll)
    except Timeout:
        return None

    def release() -> None:
        # While it is held: a process that opened the file before finds it without a name, and opens another.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        lock.release()

    return release


def _is_there(path: Path | str) -> bool:
    """Whether something has that name. Raises StorageError where the file system does not say."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as fault:
        raise storage_error(fault, Path(path), OPTION, verb="read") or fault from fault
    return True


def stage_folders(root: Path) -> Iterator[tuple[str, Path]]:
    """Kind and folder of every stage, sorted; drafts and locks, whose names begin with a dot, are none."""
    for folder in sorted((root / STAGES).glob("*/??/[!.]*")):
        yield folder.parts[-3], folder
