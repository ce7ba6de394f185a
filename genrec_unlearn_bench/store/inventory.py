"""Contents of a store: a listing by kind and backbone, a check of every byte, and garbage collection.

A collection removes stages that no result needs, that were not read for long, or down to a size, and always what killed
processes left behind. Everything is removed while holding its lock, so nothing that a running process needs goes.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact, DataMissing, StorageError, UsageError
from genrec_unlearn_bench.files import draft_prefix
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import MANIFEST, StageManifest, verified
from genrec_unlearn_bench.store.store import STAGES, StageStore, is_free, old_stages, stage_folders, try_lock

SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
"""Units of amounts as people write them (``parse_amount``)."""

HOUR = 3600.0
RESUMABLE = 14 * 24 * HOUR
"""Seconds for which unfinished work waits for its command to be given again."""

_RECORD = "result.json"
"""Name of a result's record; the pipeline, which writes it, lies above the store."""

Reason = Literal["older", "not kept", "over size", "old recipe", "draft", "unfinished"]


@dataclass(frozen=True)
class Entry:
    """A stored stage by its manifest (None where it cannot be read).

    Attributes:
        made, read: Seconds since the epoch: when it was stored, and when it was last read (to the minute).
    """

    name: str
    key: str
    path: Path
    manifest: StageManifest | None
    made: float
    read: float

    @property
    def seconds(self) -> float:
        """Time that computing it again would take."""
        return self.manifest.seconds if self.manifest is not None else 0.0

    @cached_property
    def size(self) -> int:
        """Bytes of its files."""
        if self.manifest is not None and self.manifest.size:
            return self.manifest.size
        return folder_size(self.path)


def entries(root: Path) -> Iterator[Entry]:
    """Every stage of a store, by kind and key. Stages that vanish meanwhile are left out."""
    for name, folder in stage_folders(root):
        manifest = None
        try:
            made = read = folder.stat().st_mtime
            with suppress(OSError, ValidationError):
                made = (folder / MANIFEST).stat().st_mtime
                manifest = StageManifest.model_validate_json((folder / MANIFEST).read_bytes())
        except OSError:
            continue
        yield Entry(name, folder.name, folder, manifest, made, read)


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


class ListingRow(StrictModel):
    """Stages of one kind and backbone."""

    stage: str
    backbone: str
    """"" for what all backbones share."""
    stages: int
    size: int
    """Bytes."""
    seconds: float
    """Time that computing all of them again would take."""
    oldest: float
    """Age of the oldest, in seconds."""
    last_read: float
    """Seconds since one of them was read."""


class Listing(StrictModel):
    root: Path
    rows: tuple[ListingRow, ...]
    unreadable: int = 0
    """Stages whose manifest cannot be read; ``bench cache verify`` says why."""


def list_store(root: Path) -> Listing:
    """The listing of a store. Only manifests are read."""
    now = time.time()
    stages = list(entries(root))
    backbones = _backbones(stages)
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in stages:
        groups.setdefault((entry.name, backbones.get(entry.key, "")), []).append(entry)
    rows = (
        ListingRow(
            stage=name,
            backbone=backbone,
            stages=len(members),
            size=sum(entry.size for entry in members),
            seconds=sum(entry.seconds for entry in members),
            oldest=max(now - entry.made for entry in members),
            last_read=max(min(now - entry.read for entry in members), 0.0),
        )
        for (name, backbone), members in sorted(groups.items())
    )
    return Listing(root=root, rows=tuple(rows), unreadable=sum(entry.manifest is None for entry in stages))


def _backbones(stages: Iterable[Entry]) -> Mapping[str, str]:
    """Key -> name of the backbone of a stage or of what it was made from, "" for what all share."""
    manifests = {entry.key: entry.manifest for entry in stages if entry.manifest is not None}
    known: dict[str, str] = {}

    def backbone(key: str) -> str:
        if key not in known:
            # Set before the inputs are followed: a forged manifest may name itself.
            known[key] = manifests[key].backbone
            inputs = (one for one in manifests[key].inputs if one in manifests)
            known[key] = known[key] or next((found for one in inputs if (found := backbone(one))), "")
        return known[key]

    return {key: backbone(key) for key in manifests}


@dataclass(frozen=True)
class Damage:
    """A stage that does not match its digests or cannot be read, and whether it is in ``quarantine/`` now."""

    name: str
    key: str
    what: str
    moved: bool = False


class Verified(NamedTuple):
    """Number of stages; those that are damaged, and those that could not be read at all."""

    stages: int
    damaged: list[Damage]
    unreadable: list[Damage]


def verify_store(root: Path, progress: Progress, *, only: Sequence[str] = (), quarantine: bool = True) -> Verified:
    """Check every file of every stage (``only``: of these kinds) against its digest; ``quarantine`` damaged stages."""
    store = StageStore(root, progress)
    folders = [(name, path) for name, path in stage_folders(root) if not only or name in only]
    found = Verified(len(folders), [], [])
    for name, path in progress.track("verify", folders, total=len(folders)):
        try:
            verified(path, name, path.name)
        except CorruptArtefact as fault:
            if path.is_dir():
                if quarantine:
                    with suppress(BenchError):
                        store.quarantine(name, path.name, fault)
                found.damaged.append(Damage(name, path.name, fault.what, moved=not path.is_dir()))
        except StorageError as fault:
            found.unreadable.append(Damage(name, path.name, f"{fault.what}: {fault.where}"))
    return found


@dataclass(frozen=True)
class Policy:
    """Which stages may go. What a kept result needs, or was read within ``spare`` seconds, never goes.

    Attributes:
        older_than: Seconds since a stage was last read.
        max_size: Bytes that the store may have; stages read longest ago go first.
        keep: Keys of results' stages, kept with their inputs; without age and size, all other stages go.
        old: Also remove stages in the layout of an older recipe.
    """

    older_than: float | None = None
    max_size: int | None = None
    keep: frozenset[str] | None = None
    old: bool = False
    spare: float = 24 * HOUR


class Removable(NamedTuple):
    """A stage or a leftover that may go, guarded by the lock of ``target``, the stage's folder, there or not."""

    path: Path
    target: Path
    why: Reason
    size: int
    name: str = ""
    seconds: float = 0.0


class Collected(StrictModel):
    """Stages and leftovers that were removed, or would be."""

    root: Path
    removed: bool
    """Else this is what would be."""
    stages: int
    size: int
    """Bytes that are freed."""
    reasons: dict[str, int]
    """Number of stages by ``Reason``."""
    seconds: dict[str, float]
    """Kind of stage -> time that computing them again would take, the longest first."""
    leftovers: dict[str, int]
    kept: int
    """Stages that stay."""
    refused: tuple[str, ...] = ()
    """Paths that could not be removed: in use, or another user's."""


def collect(root: Path, policy: Policy, progress: Progress, *, yes: bool) -> Collected:
    """Remove the stages and leftovers that may go (``yes``), or only report them."""
    found = list(entries(root))
    chosen = select(found, policy)
    old = [Removable(path, path, "old recipe", folder_size(path)) for path in old_stages(root)] if policy.old else []
    loose = list(leftovers(root))
    everything = [*chosen, *old, *loose]
    refused: list[Removable] = []
    if yes:
        refused += [one for one in progress.track("remove", everything, total=len(everything)) if not remove(one)]
        for kind in {one.path.parent.parent for one in old} - {one.path.parent.parent for one in refused}:
            shutil.rmtree(kind, ignore_errors=True)
    seconds: dict[str, float] = {}
    for one in chosen:
        seconds[one.name] = seconds.get(one.name, 0.0) + one.seconds
    return Collected(
        root=root,
        removed=yes,
        stages=len(chosen) + len(old),
        size=sum(one.size for one in everything),
        reasons=Counter(one.why for one in [*chosen, *old]),
        seconds=dict(sorted(seconds.items(), key=lambda pair: -pair[1])),
        leftovers=Counter(one.why for one in loose),
        kept=len(found) - len(chosen),
        refused=tuple(str(one.path.relative_to(root)) for one in refused),
    )


def select(found: Iterable[Entry], policy: Policy) -> list[Removable]:
    """The stages that a policy gives up, those read longest ago first."""
    now = time.time()
    stages = sorted(found, key=lambda entry: (entry.read, entry.key))
    kept = _with_inputs(policy.keep or (), stages)
    only_keep = policy.keep is not None and policy.older_than is None and policy.max_size is None
    excess = sum(entry.size for entry in stages) - policy.max_size if policy.max_size is not None else 0
    chosen: list[Removable] = []
    for entry in stages:
        age = now - entry.read
        # Stages that are too old come first, and count towards the size as well.
        too_old = policy.older_than is not None and age > policy.older_than
        if entry.key not in kept and age >= policy.spare and (too_old or only_keep or excess > 0):
            why: Reason = "older" if too_old else "not kept" if only_keep else "over size"
            chosen.append(Removable(entry.path, entry.path, why, entry.size, entry.name, entry.seconds))
            excess -= entry.size
    return chosen


def _with_inputs(keys: Iterable[str], stages: Iterable[Entry]) -> set[str]:
    inputs = {entry.key: entry.manifest.inputs for entry in stages if entry.manifest is not None}
    found: set[str] = set()
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting.extend(inputs.get(key, ()))
    return found


def leftovers(root: Path) -> Iterator[Removable]:
    """Leftovers of killed processes: drafts of stages, and unfinished work that nobody will resume."""
    for draft in sorted((root / STAGES).glob("*/*/.draft-*")):
        # The name holds the key's first digits, its lock all of them.
        start = draft.name.removeprefix(".draft-").partition("-")[0]
        locks = sorted(draft.parent.glob(f".{start}*.lock"))
        target = draft.parent / (locks[0].stem[1:] if locks else start)
        if _untouched(draft, HOUR) and is_free(target):
            yield Removable(draft, target, "draft", folder_size(draft))
    store = StageStore(root)
    for work in sorted((root / "unfinished").glob("*/*")):
        target = store.folder(work.parent.name, work.name)
        if (target.is_dir() or _untouched(work, RESUMABLE)) and is_free(target):
            yield Removable(work, target, "unfinished", folder_size(work))


def _untouched(path: Path, seconds: float) -> bool:
    latest = 0.0
    for one in (path, *path.rglob("*")):
        with suppress(OSError):
            latest = max(latest, one.stat().st_mtime)
    return time.time() - latest > seconds


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
        paths = list(folder.rglob(_RECORD))
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


def parse_amount(text: str, units: Mapping[str, int], *, where: str) -> float:
    """``12h``, ``30d`` in ``SECONDS``; ``500M``, ``20GiB`` in ``BYTES``, by powers of 1024. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-zA-Z]??)(?:i?B)?", text.strip())
    if found is None or found.group(2) not in units:
        names = ", ".join(filter(None, units))
        raise UsageError(f"{text!r} is no amount", where=where, hint=f"write a number and one of {names}")
    return float(found.group(1)) * units[found.group(2)]


def format_bytes(number: float) -> str:
    """Bytes with a unit: ``12.3 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"
