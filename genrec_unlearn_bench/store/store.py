"""The store of computed stages: ``<cache>/<stage>/<key[:2]>/<key>/``, complete or not there at all.

A stage is computed into a temporary folder and renamed; a lock lets two processes compute it once; every file's digest
is checked when a stage is read again, and what does not match is moved to ``quarantine/`` and computed anew. So after a
kill, a full disk or a damaged file the same command simply goes on where it stopped.

A second store may lie under one's own (``$GENREC_UNLEARN_BENCH_SHARED_CACHE``): what it holds is read there, and
nothing is ever written to it.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import atomic_folder, draft_prefix, guarded, make_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.keys import KeyContent, content_key
from genrec_unlearn_bench.store.locks import held
from genrec_unlearn_bench.store.sharing import SHARED_VARIABLE, is_shared, opened_to_group
from genrec_unlearn_bench.store.stage_manifest import MANIFEST, StageManifest, StoredStage, verified, write_manifest

__all__ = ["CACHE_VARIABLE", "StageManifest", "StageStore", "StoredStage", "default_cache"]

CACHE_VARIABLE = "GENREC_UNLEARN_BENCH_CACHE"
OPTION = f"--cache-dir or ${CACHE_VARIABLE}"

READ_AGAIN = 60.0
"""Seconds after which another reading of a stage is noted (as its folder's time)."""

Compute = Callable[[Path], Mapping[str, Any] | None]
"""Writes a stage's files into a folder; may return facts about the computation itself (time, memory), which are kept
in the manifest but are no part of the content, so that they change no digest."""

_Signature = tuple[tuple[str, int, int, int], ...]


def default_cache() -> Path:
    """``$GENREC_UNLEARN_BENCH_CACHE``, else the user's cache folder."""
    import platformdirs

    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("genrec-unlearn-bench")


class StageStore:
    """Stages by content key under one root folder.

    Args:
        shared: A store that is read where this one has nothing, and never written; by default the one that
            ``$GENREC_UNLEARN_BENCH_SHARED_CACHE`` names, if it does.
    """

    def __init__(self, root: Path, progress: Progress | None = None, *, shared: Path | None = None) -> None:
        self.root = root
        self._progress = progress or Progress()
        named = os.environ.get(SHARED_VARIABLE)
        self.shared = shared or (Path(named) if named else None)
        self._verified: dict[tuple[str, str], tuple[StoredStage, _Signature]] = {}

    @staticmethod
    def key(name: str, content: KeyContent) -> str:
        """The key a stage of that content has."""
        return content_key(name, content)

    def folder(self, name: str, key: str) -> Path:
        """Where a stage of that key lies, or would lie."""
        return self.root / name / key[:2] / key

    def work(self, name: str, content: KeyContent) -> Path:
        """Where the stage's computation may keep what it needs to go on after a kill; removed once it is stored.

        What stays behind when the content's key changes (say, with the code) is never read again; ``bench cache gc``
        removes it.
        """
        return self.root / "unfinished" / name / content_key(name, content)

    def find(self, name: str, content: KeyContent) -> StoredStage | None:
        """The stage if it is there and whole; a damaged one is moved aside and counts as missing."""
        return self.known(name, content_key(name, content))

    def known(self, name: str, key: str) -> StoredStage | None:
        """As ``find``, for a key that a record names."""
        folder = self.folder(name, key)
        if folder.is_dir():
            try:
                return self._read(name, key, folder)
            except CorruptArtefact as fault:
                self.set_aside(folder, name, key, fault)
        # A store that makes some stages anew keeps them elsewhere; those are not to be found below it either.
        if self.shared is None or self.shared == self.root or not folder.is_relative_to(self.root):
            return None
        below = self.shared / folder.relative_to(self.root)
        if not below.is_dir():
            return None
        try:
            return self._read(name, key, below)
        except CorruptArtefact as fault:
            self._progress.info(
                f"warning: the stage {name!r} in the shared store is damaged ({fault.what}) and is not used; "
                f"tell whoever keeps it: {below}"
            )
            return None

    def stage(self, name: str, content: KeyContent, compute: Compute) -> StoredStage:
        """The stage for a content, computed once and stored.

        Raises ``errors.StorageError`` where the cache cannot be written. Whatever ``compute`` raises passes through,
        and nothing is left behind.
        """
        found = self.find(name, content)
        if found is not None:
            return found
        folder = self.folder(name, content_key(name, content))
        shared = is_shared(self.root)
        with guarded(folder, OPTION):
            make_folder(folder.parent)
            if shared:
                opened_to_group(folder.parent, self.root)
            with held(folder, waiting=lambda: self._waits(name), shared=shared):
                # Another process may have finished it while this one waited.
                found = self.find(name, content)
                if found is not None:
                    return found
                self._sweep(folder)
                self._compute(name, content, folder, compute, shared=shared)
        computed = self.find(name, content)
        if computed is None:
            raise CorruptArtefact(
                f"the stage {name!r} was damaged while it was written",
                where=str(folder),
                hint="check the disk, or choose another place with --cache-dir",
            )
        return replace(computed, cached=False)

    def _compute(self, name: str, content: KeyContent, folder: Path, compute: Compute, *, shared: bool) -> None:
        with atomic_folder(folder, OPTION) as draft:
            began = time.perf_counter()
            account = dict(compute(draft) or {})
            seconds = time.perf_counter() - began
            write_manifest(draft, name, folder.name, content, seconds=seconds, account=account)
            if shared:
                opened_to_group(draft)
        shutil.rmtree(self.work(name, content), ignore_errors=True)

    def _read(self, name: str, key: str, folder: Path) -> StoredStage:
        """The stage, every byte checked; in one process once, as long as nothing says that a file was touched since.

        Raises CorruptArtefact.
        """
        known = self._verified.get((name, key))
        if known is not None and known[0].path == folder and known[1] == _signature(folder):
            return known[0]
        # Taken before the files are read: what changes meanwhile is then read again.
        signature = _signature(folder)
        found = verified(folder, name, key)
        self._verified[name, key] = (found, signature)
        _note_reading(folder)
        return found

    def _waits(self, name: str) -> None:
        self._progress.info(f"waiting for another process that is computing the stage {name!r}")

    def _sweep(self, folder: Path) -> None:
        """Remove drafts of processes that were killed: the lock is ours, so nobody is writing them."""
        for draft in folder.parent.glob(f"{draft_prefix(folder)}*"):
            shutil.rmtree(draft, ignore_errors=True)

    def set_aside(self, folder: Path, name: str, key: str, fault: CorruptArtefact) -> None:
        """Move a damaged stage to ``quarantine/``. Raises CorruptArtefact where that cannot be done."""
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
                hint="have its owner remove that folder, or choose a cache of your own with --cache-dir and lay this "
                f"one under it (${SHARED_VARIABLE})",
            ) from refusal
        self._progress.info(f"warning: the stored stage {name!r} is damaged ({fault.what}); moved to {place}")


def _signature(folder: Path) -> _Signature:
    """What tells that a file was written to or replaced: sizes, times and numbers of all files."""
    found = []
    for path in sorted(folder.rglob("*")):
        with suppress(OSError):
            status = path.stat()
            if not path.is_dir():
                found.append((str(path), status.st_size, status.st_mtime_ns, status.st_ino))
    return tuple(found)


def _note_reading(folder: Path) -> None:
    """Set the folder's time, by which ``bench cache gc`` knows what was read last; others' folders keep theirs."""
    with suppress(OSError):
        if time.time() - folder.stat().st_mtime > READ_AGAIN and (folder / MANIFEST).is_file():
            os.utime(folder)
