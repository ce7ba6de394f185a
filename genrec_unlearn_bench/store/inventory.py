"""Contents of a store: a listing by kind, a check of every byte, and garbage collection.

A collection removes stages that no result needs or that were not read for long, and always what killed processes left
behind. Everything is removed while holding its lock, so nothing that a running process needs goes.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from genrec_unlearn_bench.errors import BenchError, CorruptArtefact, DataMissing, StorageError
from genrec_unlearn_bench.files import draft_prefix, find_files
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import StageManifest, read_manifest, verified
from genrec_unlearn_bench.store.store import STAGES, StageStore, stage_folders, try_lock

HOUR = 3600.0
SPARE = 24 * HOUR
"""Seconds since a stage was last read for which it stays, where nobody names another age."""
RESUMABLE = 14 * 24 * HOUR
"""Seconds for which unfinished work waits for its command to be given again."""

_RECORD = "result.json"
"""Name of a result's record; the pipeline, which writes it, lies above the store."""


@dataclass(frozen=True)
class Entry:
    """A stored stage; ``manifest`` is None where it cannot be read, ``read`` when it was last read, to the minute."""

    name: str
    path: Path
    manifest: StageManifest | None
    read: float

    @property
    def seconds(self) -> float:
        """Time that computing it again would take."""
        return self.manifest.seconds if self.manifest is not None else 0.0

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return self.manifest.size if self.manifest is not None else folder_size(self.path)


def entries(root: Path) -> Iterator[Entry]:
    """Every stage of a store, by kind and key. Stages that vanish meanwhile are left out."""
    for name, folder in stage_folders(root):
        manifest = None
        with suppress(OSError):
            read = folder.stat().st_mtime
            with suppress(CorruptArtefact, StorageError):
                manifest = read_manifest(folder)
            yield Entry(name, folder, manifest, read)


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(status.st_size for status in _inside(folder) if stat.S_ISREG(status.st_mode))


def _inside(folder: Path) -> Iterator[os.stat_result]:
    """Status of a folder and of all below it; what vanishes meanwhile is left out (``rglob`` would fail)."""
    below = (Path(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files))
    for path in (folder, *below):
        with suppress(OSError):
            yield path.stat()


def list_store(root: Path) -> list[dict[str, Any]]:
    """For each kind of stage: ``stage``; ``stages``, their number; ``size`` in bytes; ``seconds`` that computing all of
    them again would take; ``last_read``, seconds since one of them was read; ``unreadable`` manifests."""
    import pandas as pd

    now = time.time()
    rows = [(one.name, 1, one.size, one.seconds, now - one.read, one.manifest is None) for one in entries(root)]
    found = pd.DataFrame(rows, columns=["stage", "stages", "size", "seconds", "last_read", "unreadable"])
    parts = {"stages": "sum", "size": "sum", "seconds": "sum", "last_read": "min", "unreadable": "sum"}
    table = found.groupby("stage", as_index=False).agg(parts)
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


class Damage(NamedTuple):
    """A stage that does not match its digests or cannot be read, and whether it is in ``quarantine/`` now."""

    name: str
    key: str
    what: str
    moved: bool


def verify_store(root: Path, progress: Progress) -> tuple[int, list[Damage]]:
    """Check every file of every stage against its digest; damaged stages are moved to ``quarantine/``.

    Returns the number of stages, and those that are damaged or could not be read.
    """
    store, folders, found = StageStore(root, progress), list(stage_folders(root)), []
    for name, path in progress.track("verify", folders, total=len(folders)):
        try:
            verified(path, name, path.name)
        except CorruptArtefact as fault:
            with suppress(BenchError):
                store.quarantine(name, path.name, fault)
            found.append(Damage(name, path.name, fault.what, not path.is_dir()))
        except StorageError as fault:
            found.append(Damage(name, path.name, f"{fault.what}: {fault.where}", moved=False))
    return len(folders), found


class Removable(NamedTuple):
    """A stage or a leftover that may go, guarded by the lock of ``target``, the stage's folder, there or not."""

    path: Path
    target: Path
    size: int


def collect(
    root: Path,
    progress: Progress,
    *,
    older_than: float | None = None,
    keep: frozenset[str] | None = None,
    yes: bool = False,
) -> dict[str, Any]:
    """Remove leftovers, and the stages that were not read for ``older_than`` seconds and that no result needs.

    Args:
        older_than: A day, if only ``keep`` is given; without both, all stages stay.
        keep: Keys of results' stages, kept with their inputs.
        yes: Remove; otherwise this is only a report.

    Returns:
        ``stages`` that go, ``leftovers`` of killed processes, their ``size`` in bytes, ``seconds`` that computing these
        stages again would take, ``kept`` stages, and paths that are ``refused``: in use, or another user's.
    """
    found = list(entries(root))
    chosen = [] if older_than is None and keep is None else _unneeded(found, older_than, keep or frozenset())
    loose = list(leftovers(root))
    everything = [*(Removable(one.path, one.path, one.size) for one in chosen), *loose]
    steps = progress.track("remove", everything if yes else (), total=len(everything))
    return {
        "root": str(root),
        "removed": yes,
        "stages": len(chosen),
        "leftovers": len(loose),
        "size": sum(one.size for one in everything),
        "seconds": sum(one.seconds for one in chosen),
        "kept": len(found) - len(chosen),
        "refused": [str(one.path.relative_to(root)) for one in steps if not remove(one)],
    }


def _unneeded(stages: Iterable[Entry], older_than: float | None, keep: frozenset[str]) -> list[Entry]:
    inputs = {one.path.name: one.manifest.inputs for one in stages if one.manifest is not None}
    kept: set[str] = set()
    waiting = list(keep)
    while waiting:
        if (key := waiting.pop()) not in kept:
            kept.add(key)
            waiting.extend(inputs.get(key, ()))
    latest = time.time() - (SPARE if older_than is None else older_than)
    return [one for one in stages if one.read <= latest and one.path.name not in kept]


def leftovers(root: Path) -> Iterator[Removable]:
    """Leftovers of killed processes: drafts of stages, and unfinished work that nobody will resume."""
    for draft in sorted((root / STAGES).glob("*/*/.draft-*")):
        # The name holds the key's first digits, its lock all of them.
        start = draft.name.removeprefix(".draft-").partition("-")[0]
        locks = sorted(draft.parent.glob(f".{start}*.lock"))
        if _untouched(draft, HOUR):
            yield Removable(draft, draft.parent / (locks[0].stem[1:] if locks else start), folder_size(draft))
    store = StageStore(root)
    for work in sorted((root / "unfinished").glob("*/*")):
        target = store.folder(work.parent.name, work.name)
        if target.is_dir() or _untouched(work, RESUMABLE):
            yield Removable(work, target, folder_size(work))


def _untouched(path: Path, seconds: float) -> bool:
    return time.time() - max((status.st_mtime for status in _inside(path)), default=0.0) > seconds


def remove(one: Removable) -> bool:
    """Remove it at once or not at all, while holding its lock; returns whether it is gone. What is locked stays."""
    release = None
    with suppress(OSError):
        # Where a kind has no stages there is no folder for a lock, and nobody holds it.
        if one.target.parent.is_dir() and (release := try_lock(one.target)) is None:
            return False
        try:
            # A stage must never be seen half removed.
            aside = one.path.parent / f"{draft_prefix(one.target)}gc-{uuid.uuid4().hex[:8]}"
            one.path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
        finally:
            if release is not None:
                release()
    return not one.path.exists()


def keys_of_results(folders: Iterable[Path]) -> frozenset[str]:
    """Keys of all stages that the results below some folders were made from. Raises DataMissing for a folder without
    results, as a mistyped name must not free everything, and CorruptArtefact for a record that cannot be read."""
    keys: set[str] = set()
    for folder in folders:
        paths = find_files(folder, _RECORD)
        if not paths:
            raise DataMissing(
                "there is no result, so nothing would be kept for it",
                where=str(folder),
                hint="give the folder that bench run wrote to (--results-dir)",
            )
        for path in paths:
            try:
                keys.update(stage["key"] for stage in json.loads(path.read_bytes())["stages"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
                raise CorruptArtefact(
                    f"the record cannot be read: {fault}", where=str(path), hint="restore or remove its folder"
                ) from None
    return frozenset(keys)
