"""A store in a table: stages by kind and backbone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.store.inventory import Entry, backbones_of, entries

__all__ = ["Listing", "ListingRow", "list_store"]


class ListingRow(StrictModel):
    """Stages of one kind and backbone."""

    stage: str
    backbone: str
    """"" for what all backbones share."""
    stages: int
    size: int
    """Bytes."""
    seconds: float
    """What computing them again would take, all together."""
    oldest: float
    """Age of the oldest, in seconds."""
    last_read: float
    """Seconds since one of them was read."""


class Listing(StrictModel):
    """What a store holds."""

    root: Path
    rows: tuple[ListingRow, ...]
    older_version: int = 0
    """Stages of key version 1 that were not carried over, among those above."""
    twins: int = 0
    """Stages under keys of version 1 whose files are counted under their new keys."""
    unreadable: int = 0
    """Stages whose manifest cannot be read; `bench cache verify` moves them aside."""


def list_store(root: Path, now: float | None = None) -> Listing:
    """What lies in a store. Only manifests are read."""
    moment = time.time() if now is None else now
    found = list(entries(root))
    was = {entry.manifest.was for entry in found if entry.manifest is not None and entry.manifest.was}
    stages = [entry for entry in found if entry.key not in was]
    backbones = backbones_of(stages)
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in stages:
        groups.setdefault((entry.name, backbones.get(entry.key, "")), []).append(entry)
    return Listing(
        root=root,
        rows=tuple(_row(name, backbone, members, moment) for (name, backbone), members in sorted(groups.items())),
        older_version=sum(entry.is_old and entry.name != "task" for entry in stages),
        twins=len(found) - len(stages),
        unreadable=sum(entry.manifest is None for entry in stages),
    )


def _row(name: str, backbone: str, members: Iterable[Entry], moment: float) -> ListingRow:
    stages = list(members)
    return ListingRow(
        stage=name,
        backbone=backbone,
        stages=len(stages),
        size=sum(entry.size for entry in stages),
        seconds=sum(entry.seconds for entry in stages),
        oldest=max(moment - entry.made for entry in stages),
        last_read=max(min(moment - entry.read for entry in stages), 0.0),
    )
