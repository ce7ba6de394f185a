"""What a store holds, without reading the stages themselves: one small file is read for each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.store.stage_manifest import MANIFEST, StageManifest, stage_content

__all__ = ["ASIDE", "Entry", "backbones_of", "entries", "kinds", "stage_folders"]

ASIDE = frozenset({"quarantine", "unfinished", "sweeps", "embeddings", "pulling"})
"""Folders of a store that hold no stages."""

_SHORT = re.compile(r"[0-9a-f]{2}")
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """A stored stage, as its manifest tells it.

    Attributes:
        manifest: None where it cannot be read.
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
        """What computing it again would take."""
        return self.manifest.seconds if self.manifest is not None else 0.0

    @property
    def is_old(self) -> bool:
        """Whether it lies under a key of version 1."""
        return self.manifest is not None and not self.manifest.explained

    @cached_property
    def size(self) -> int:
        """Bytes of its files."""
        if self.manifest is not None and self.manifest.size:
            return self.manifest.size
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())

    def content(self) -> dict[str, Any]:
        """What its key was made of; empty where that cannot be read."""
        try:
            return stage_content(self.path)
        except CorruptArtefact:
            return {}


def entries(root: Path) -> Iterator[Entry]:
    """Every stage of a store, by kind and key. Stages that vanish meanwhile are passed over."""
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


def stage_folders(root: Path) -> Iterator[tuple[str, Path]]:
    """Kind and folder of every stage, sorted."""
    for kind in kinds(root):
        for short in _folders(kind, _SHORT):
            for folder in _folders(short, _KEY):
                yield kind.name, folder


def kinds(root: Path) -> list[Path]:
    """The folders of a store that hold stages, one a kind."""
    if not root.is_dir():
        return []
    return [folder for folder in _folders(root, re.compile(r"[A-Za-z0-9_-]+")) if folder.name not in ASIDE]


def backbones_of(found: Iterable[Entry]) -> Mapping[str, str]:
    """Key -> name of the backbone a stage belongs to, "" for what all share.

    Contents name digests of what they were made from, so an evaluation is the backbone's whose model it measured.
    """
    stages = [entry for entry in found if entry.manifest is not None]
    by_digest = {entry.manifest.digest: entry for entry in stages if entry.manifest is not None}
    known: dict[str, str] = {}

    def backbone(entry: Entry, depth: int = 0) -> str:
        manifest = entry.manifest
        if entry.key in known or manifest is None:
            return known.get(entry.key, "")
        if manifest.explained:
            own, inputs = manifest.backbone, manifest.inputs
        else:
            content = entry.content()
            told = content.pop("backbone", "")
            content.pop("code", None)
            own, inputs = str(told), tuple(part for part in content.values() if isinstance(part, str))
        above = (by_digest[digest] for digest in inputs if digest in by_digest)
        # Semantic IDs may be shared by backbones: they have none of their own, and pass none on.
        found_above = "" if own or depth > 8 else next((b for one in above if (b := backbone(one, depth + 1))), "")
        known[entry.key] = own or found_above
        return known[entry.key]

    return {entry.key: backbone(entry) for entry in stages}


def _folders(place: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        with os.scandir(place) as found:
            names = sorted(one.name for one in found if pattern.fullmatch(one.name) and one.is_dir())
    except FileNotFoundError:
        return []
    return [place / name for name in names]
