"""The store of computed stages: ``<cache>/<stage>/<key[:2]>/<key>/``, complete or not there at all.

A stage is computed into a temporary folder and renamed; a lock lets two processes compute it once (locks are the
operating system's, so they end with their owner); every file's digest is checked when a stage is read again, and what
does not match is moved to ``quarantine/`` and computed anew. So after a kill, a full disk or a damaged file the same
command simply goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import Field, ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.runs.files import (
    atomic_folder,
    draft_prefix,
    file_digest,
    folder_digest,
    guarded,
    write_json,
)
from genrec_unlearn_bench.runs.keys import KeyContent, content_key, envelope

__all__ = ["CACHE_VARIABLE", "StageManifest", "StageStore", "StoredStage", "default_cache"]

CACHE_VARIABLE = "GENREC_UNLEARN_BENCH_CACHE"
MANIFEST = "stage.json"
KEY_FILE = "key.json"
OPTION = f"--cache-dir or ${CACHE_VARIABLE}"

Compute = Callable[[Path], Mapping[str, Any] | None]
"""Writes a stage's files into a folder; may return facts about the computation itself (time, memory), which are kept
in the manifest but are no part of the content, so that they change no digest."""


class StageManifest(StrictModel):
    """What lies in a stage's folder."""

    stage: str
    key: str
    digest: str
    """blake2b-256 over the files' names and digests, without key.json and this file."""
    seconds: float
    """Wall-clock of the computation."""
    files: dict[str, str]
    """Relative path -> blake2b-256."""
    account: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class StoredStage:
    """A complete stage, verified.

    Attributes:
        seconds: Wall-clock when it was computed, in whichever process that was.
        cached: Whether it was found in the store.
    """

    name: str
    path: Path
    key: str
    digest: str
    seconds: float
    cached: bool
    account: Mapping[str, Any]


def default_cache() -> Path:
    """``$GENREC_UNLEARN_BENCH_CACHE``, else the user's cache folder."""
    import platformdirs

    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_cache_path("genrec-unlearn-bench")


class StageStore:
    """Stages by content key under one root folder."""

    def __init__(self, root: Path, progress: Progress | None = None) -> None:
        self.root = root
        self._progress = progress or Progress()

    @staticmethod
    def key(name: str, content: KeyContent) -> str:
        """The key a stage of that content has."""
        return content_key(name, content)

    def folder(self, name: str, key: str) -> Path:
        """Where a stage of that key lies, or would lie."""
        return self.root / name / key[:2] / key

    def work(self, name: str, content: KeyContent) -> Path:
        """Where the stage's computation may keep what it needs to go on after a kill; removed once it is stored.

        What stays behind when the content's key changes (say, with the code) is never read again and may be deleted.
        """
        return self.root / "unfinished" / name / content_key(name, content)

    def find(self, name: str, content: KeyContent) -> StoredStage | None:
        """The stage if it is there and whole; a damaged one is moved aside and counts as missing."""
        return self.known(name, content_key(name, content))

    def known(self, name: str, key: str) -> StoredStage | None:
        """As ``find``, for a key that a record names."""
        folder = self.folder(name, key)
        if not folder.is_dir():
            return None
        try:
            return self._verified(name, key, folder)
        except CorruptArtefact as fault:
            self._set_aside(folder, name, key, fault)
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
        with guarded(folder, OPTION):
            folder.parent.mkdir(parents=True, exist_ok=True)
        lock = self._lock(folder, name)
        try:
            # Another process may have finished it while this one waited.
            found = self.find(name, content)
            if found is not None:
                return found
            self._sweep(folder)
            self._compute(name, content, folder, compute)
        finally:
            lock.release()
        computed = self.find(name, content)
        if computed is None:
            raise CorruptArtefact(
                f"the stage {name!r} was damaged while it was written",
                where=str(folder),
                mend="check the disk, or choose another place with --cache-dir",
            )
        return StoredStage(**{**vars(computed), "cached": False})

    def _compute(self, name: str, content: KeyContent, folder: Path, compute: Compute) -> None:
        key = folder.name
        with atomic_folder(folder, OPTION) as draft:
            began = time.perf_counter()
            account = dict(compute(draft) or {})
            seconds = time.perf_counter() - began
            files = {
                path.relative_to(draft).as_posix(): file_digest(path)
                for path in sorted(draft.rglob("*"))
                if path.is_file()
            }
            manifest = StageManifest(
                stage=name, key=key, digest=folder_digest(files), seconds=seconds, files=files, account=account
            )
            write_json(draft / KEY_FILE, json.loads(envelope(name, content)))
            write_json(draft / MANIFEST, manifest.model_dump(mode="json"))
        shutil.rmtree(self.work(name, content), ignore_errors=True)

    def _verified(self, name: str, key: str, folder: Path) -> StoredStage:
        try:
            manifest = StageManifest.model_validate_json((folder / MANIFEST).read_bytes())
        except (OSError, ValidationError) as fault:
            raise CorruptArtefact(f"the manifest cannot be read: {fault}", where=str(folder)) from None
        if manifest.key != key or manifest.stage != name:
            raise CorruptArtefact("the manifest belongs to another stage", where=str(folder))
        for relative, digest in manifest.files.items():
            try:
                actual = file_digest(folder / relative)
            except OSError as fault:
                raise CorruptArtefact(f"{relative} cannot be read: {fault.strerror}", where=str(folder)) from None
            if actual != digest:
                raise CorruptArtefact(f"{relative} does not match its digest", where=str(folder))
        if folder_digest(manifest.files) != manifest.digest:
            raise CorruptArtefact("the manifest does not match its digest", where=str(folder))
        return StoredStage(name, folder, key, manifest.digest, manifest.seconds, True, manifest.account)

    def _lock(self, folder: Path, name: str) -> FileLock:
        lock = FileLock(folder.parent / f".{folder.name}.lock")
        try:
            with guarded(folder, OPTION):
                lock.acquire(timeout=0)
        except Timeout:
            self._progress.say(f"waiting for another process that is computing the stage {name!r}")
            with guarded(folder, OPTION):
                lock.acquire(poll_interval=0.1)
        return lock

    def _sweep(self, folder: Path) -> None:
        """Remove drafts of processes that were killed: the lock is ours, so nobody is writing them."""
        for draft in folder.parent.glob(f"{draft_prefix(folder)}*"):
            shutil.rmtree(draft, ignore_errors=True)

    def _set_aside(self, folder: Path, name: str, key: str, fault: CorruptArtefact) -> None:
        place = self.root / "quarantine" / f"{name}-{key[:16]}-{uuid.uuid4().hex[:6]}"
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(place)
        except FileNotFoundError:
            return
        except OSError as refusal:
            raise CorruptArtefact(
                f"the stored stage {name!r} is damaged ({fault.what}) and cannot be moved aside",
                where=str(folder),
                mend="remove that folder, or choose another place with --cache-dir",
            ) from refusal
        self._progress.say(f"warning: the stored stage {name!r} is damaged ({fault.what}); moved to {place}")
