"""Contents of a store: its stages by their manifests, a listing by kind and backbone, a check of every byte; times and
sizes as people write them (30d, 20G)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact, StorageError, UsageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import MANIFEST, StageManifest, verified
from genrec_unlearn_bench.store.store import StageStore, stage_folders

_SECONDS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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
    """Stages of a store by kind and backbone."""

    root: Path
    rows: tuple[ListingRow, ...]
    unreadable: int = 0
    """Stages whose manifest cannot be read; ``bench cache verify`` says why."""


@dataclass(frozen=True)
class Damage:
    """A stage that does not match its digests or cannot be read, and whether it is in ``quarantine/`` now."""

    name: str
    key: str
    what: str
    moved: bool


@dataclass(frozen=True)
class Verified:
    """Number of stages; those that are damaged, and those that could not be read at all."""

    stages: int
    damaged: tuple[Damage, ...]
    unreadable: tuple[Damage, ...] = ()


def entries(root: Path) -> Iterator[Entry]:
    """Every stage of a store, by kind and key. Stages that vanish meanwhile are left out."""
    for name, folder in stage_folders(root):
        path = folder / MANIFEST
        try:
            made, read = path.stat().st_mtime, folder.stat().st_mtime
            manifest = StageManifest.model_validate_json(path.read_bytes())
        except ValidationError:
            manifest = None
        except OSError:
            if not folder.is_dir():
                continue
            made = read = folder.stat().st_mtime
            manifest = None
        yield Entry(name, folder.name, folder, manifest, made, read)


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


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


def verify_store(root: Path, progress: Progress, *, only: Sequence[str] = (), quarantine: bool = True) -> Verified:
    """Check every file of every stage (``only``: of these kinds) against its digest; ``quarantine`` damaged stages."""
    store = StageStore(root, progress)
    folders = [(name, path) for name, path in stage_folders(root) if not only or name in only]
    damaged: list[Damage] = []
    unreadable: list[Damage] = []
    for name, path in progress.track("verify", folders, total=len(folders)):
        try:
            verified(path, name, path.name)
        except CorruptArtefact as fault:
            if path.is_dir():
                if quarantine:
                    with suppress(BenchError):
                        store.quarantine(name, path.name, fault)
                damaged.append(Damage(name, path.name, fault.what, moved=not path.is_dir()))
        except StorageError as fault:
            unreadable.append(Damage(name, path.name, f"{fault.what}: {fault.where}", moved=False))
    return Verified(len(folders), tuple(damaged), tuple(unreadable))


def parse_seconds(text: str, *, where: str) -> float:
    """``12h``, ``30d``, ``8w`` in seconds. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no time", where=where, hint="write a number and m, h, d or w: 12h, 30d")
    return float(found.group(1)) * _SECONDS[found.group(2)]


def parse_bytes(text: str, *, where: str) -> int:
    """``500M``, ``20G`` in bytes, by powers of 1024. Raises UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no size", where=where, hint="write a number and K, M, G or T: 500M, 20G")
    return int(float(found.group(1)) * _BYTES[found.group(2)])


def format_bytes(number: float) -> str:
    """Bytes with a unit: ``12.3 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def format_seconds(number: float) -> str:
    """Seconds with the unit that suits them: ``90 s``, ``5 min``, ``3.5 h``, ``2.0 d``."""
    if number < 120:
        return f"{number:.0f} s"
    if number < 7200:
        return f"{number / 60:.0f} min"
    return f"{number / 3600:.1f} h" if number < 48 * 3600 else f"{number / 86400:.1f} d"


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
