"""Reads every byte of a store, and moves aside what does not match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.inventory import stage_folders
from genrec_unlearn_bench.store.stage_manifest import verified
from genrec_unlearn_bench.store.store import StageStore

__all__ = ["Damage", "Verified", "verify_store"]


@dataclass(frozen=True)
class Damage:
    """A stage that does not match its digests."""

    name: str
    key: str
    what: str
    moved: bool
    """Whether it lies in ``quarantine/`` now; else its owner has to remove it."""


@dataclass(frozen=True)
class Verified:
    """What was found."""

    stages: int
    damaged: tuple[Damage, ...]


def verify_store(root: Path, progress: Progress, *, only: Sequence[str] = (), set_aside: bool = True) -> Verified:
    """Check every file of every stage against its digest.

    Args:
        only: Kinds of stages; all where none are named.
        set_aside: Move damaged stages to ``quarantine/``, so that they are computed again.
    """
    store = StageStore(root, progress)
    folders = [(name, path) for name, path in stage_folders(root) if not only or name in only]
    damaged: list[Damage] = []
    for name, path in progress.track("verify", folders, total=len(folders)):
        try:
            verified(path, name, path.name)
        except CorruptArtefact as fault:
            if not path.is_dir():
                continue
            damaged.append(Damage(name, path.name, fault.what, set_aside and _moved(store, name, path, fault)))
    return Verified(len(folders), tuple(damaged))


def _moved(store: StageStore, name: str, path: Path, fault: CorruptArtefact) -> bool:
    try:
        store.set_aside(path, name, path.name, fault)
    except CorruptArtefact:
        return False
    return True
