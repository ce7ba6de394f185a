"""Garbage collection: removes stages that no result needs, that were not read for long, or down to a size.

Leftovers of killed processes go with every collection. Everything is removed while holding its lock, so nothing that a
running process needs goes.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.files import draft_prefix
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.inventory import Entry, entries, folder_size
from genrec_unlearn_bench.store.store import LOCK_SUFFIX, STAGES, StageStore, is_free, old_stages, try_lock

HOUR = 3600.0
RESUMABLE = 14 * 24 * HOUR
"""Seconds for which unfinished work waits for its command to be given again."""

_RECORD = "result.json"
"""Name of a result's record; the pipeline, which writes it, lies above the store."""


Reason = Literal["older", "not kept", "over size", "old recipe", "draft", "unfinished"]


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


@dataclass(frozen=True)
class Removable:
    """A stage or a leftover that may go.

    Attributes:
        target: The stage's folder, there or not, whose lock guards ``path``.
        why: Reason for a stage, kind of a leftover.
        size: Bytes.
        name, seconds: Kind of the stage, and the time that computing it again would take.
    """

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
    """Whether anything was removed; else this is what would be."""
    stages: int
    size: int
    """Bytes that are freed."""
    reasons: dict[str, int]
    """Why -> how many stages."""
    seconds: dict[str, float]
    """Kind of stage -> time that computing them again would take, the longest first."""
    leftovers: dict[str, int]
    """``draft``, ``unfinished`` -> how many."""
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
        reasons=dict(Counter(one.why for one in [*chosen, *old])),
        seconds=dict(sorted(seconds.items(), key=lambda pair: -pair[1])),
        leftovers=dict(Counter(one.why for one in loose)),
        kept=len(found) - len(chosen),
        refused=tuple(str(one.path.relative_to(root)) for one in refused),
    )


def select(found: Iterable[Entry], policy: Policy) -> tuple[Removable, ...]:
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
        if entry.key in kept or age < policy.spare or not (too_old or only_keep or excess > 0):
            continue
        why: Reason = "older" if too_old else "not kept" if only_keep else "over size"
        chosen.append(Removable(entry.path, entry.path, why, entry.size, entry.name, entry.seconds))
        excess -= entry.size
    return tuple(chosen)


def leftovers(root: Path) -> Iterator[Removable]:
    """Leftovers of killed processes: drafts of stages, and unfinished work that nobody will resume."""
    for draft in sorted((root / STAGES).glob("*/*/.draft-*")):
        target = _target_of(draft)
        if _untouched(draft, HOUR) and is_free(target):
            yield Removable(draft, target, "draft", folder_size(draft))
    store = StageStore(root)
    for work in sorted((root / "unfinished").glob("*/*")):
        target = store.folder(work.parent.name, work.name)
        if (target.is_dir() or _untouched(work, RESUMABLE)) and is_free(target):
            yield Removable(work, target, "unfinished", folder_size(work))


def remove(one: Removable) -> bool:
    """Remove it at once or not at all, while holding its lock; returns whether it is gone. What is locked stays."""
    if not one.target.parent.is_dir():
        # Unfinished work of a kind that has no stages: there is no folder for a lock, and nobody holds it.
        shutil.rmtree(one.path, ignore_errors=True)
        return not one.path.exists()
    try:
        release = try_lock(one.target)
    except OSError:
        return False
    if release is None:
        return False
    try:
        if one.path.is_dir():
            # A stage must never be seen half removed.
            aside = one.path.parent / f"{draft_prefix(one.target)}gc-{uuid.uuid4().hex[:8]}"
            one.path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
    except OSError:
        return not one.path.exists()
    finally:
        release()
    return True


def keys_of_results(folders: Iterable[Path]) -> frozenset[str]:
    """Keys of all stages that the results below some folders were made from.

    Raises DataMissing for a folder without results (a mistyped name must not free everything), CorruptArtefact for a
    record that cannot be read.
    """
    keys: set[str] = set()
    for folder in folders:
        paths = list(folder.rglob(_RECORD)) if folder.is_dir() else []
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


def _with_inputs(keys: Iterable[str], stages: Iterable[Entry]) -> frozenset[str]:
    inputs = {entry.key: entry.manifest.inputs for entry in stages if entry.manifest is not None}
    found: set[str] = set()
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key not in found:
            found.add(key)
            waiting.extend(inputs.get(key, ()))
    return frozenset(found)


def _target_of(draft: Path) -> Path:
    """Folder of the stage that a draft was to become; its name holds the key's first digits, its lock all of them."""
    start = draft.name.removeprefix(".draft-").partition("-")[0]
    locks = sorted(draft.parent.glob(f".{start}*{LOCK_SUFFIX}"))
    return draft.parent / (locks[0].name[1 : -len(LOCK_SUFFIX)] if locks else start)


def _untouched(path: Path, seconds: float) -> bool:
    latest = 0.0
    for one in (path, *path.rglob("*")):
        with suppress(OSError):
            latest = max(latest, one.stat().st_mtime)
    return time.time() - latest > seconds
