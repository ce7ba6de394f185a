"""Carries stages of key version 1 to their keys of version 2, where their code is still today's.

Nothing is computed and nothing is lost: the stage appears under its new key with hard links to the same files, and
stays under the old one, by which records know it. What a stage was made from is named by content in its key, and
contents do not change, so every stage can be carried by itself. Each appears by renaming, so a migration that was
killed is simply given again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.equal_code import code_digest
from genrec_unlearn_bench.store.inventory import Entry, entries
from genrec_unlearn_bench.store.keys import CODE, content_key
from genrec_unlearn_bench.store.sharing import is_shared, opened_to_group
from genrec_unlearn_bench.store.stage_manifest import MANIFEST, StageManifest, write_manifest
from genrec_unlearn_bench.store.version1 import Code, beginnings, key_of_version_1

__all__ = ["Migrated", "migrate"]

OPTION = "--cache-dir"
UNTRAINED = re.compile(r"untrained ([0-9a-f]{64}) (\{.*\})", re.DOTALL)
"""How measurements of version 1 named a model with random weights: the listing of the code that draws them."""

How = Literal["carried", "already there", "same key", "left"]


@dataclass(frozen=True)
class Migrated:
    """What became of the stages of version 1.

    Attributes:
        left: (Kind of stage, reason) -> how many.
    """

    counts: Mapping[How, int]
    left: Mapping[tuple[str, str], int]


def migrate(root: Path, progress: Progress, *, source: Path | None = None, dry_run: bool = False) -> Migrated:
    """Carry what can be carried. May be given again at any time.

    Args:
        source: Checkout of the code that made the stages, where today's is another: they are then found by whatever
            ``equal_code.json`` says to be that code's equal.
        dry_run: Say what would be carried, and write nothing.

    Raises StorageError where the store cannot be written.
    """
    code = Code(source)
    shared = is_shared(root)
    counts: Counter[How] = Counter()
    left: Counter[tuple[str, str]] = Counter()
    old = [entry for entry in entries(root) if entry.is_old]
    for entry in progress.track("migrate", old, total=len(old)):
        how, reason = _carried(entry, root, code, shared=shared, dry_run=dry_run)
        counts[how] += 1
        if how == "left":
            left[entry.name, reason] += 1
    return Migrated(dict(counts), dict(left))


def _carried(entry: Entry, root: Path, code: Code, *, shared: bool, dry_run: bool) -> tuple[How, str]:
    content = entry.content()
    manifest = entry.manifest
    if manifest is None or key_of_version_1(entry.name, content) != entry.key:
        return "left", "its manifest or the explanation of its key is damaged"
    if CODE not in content and content_key(entry.name, content) == entry.key:
        return "same key", ""
    found = list(_todays(entry.name, content, code))
    if not found:
        return "left", _why(content, code)
    outcome: How = "already there"
    for new in found:
        key = content_key(entry.name, new)
        target = root / entry.name / key[:2] / key
        if target.is_dir():
            continue
        outcome = "carried"
        if not dry_run:
            try:
                _link(entry, manifest, target, new, shared=shared)
            except CorruptArtefact as fault:
                return "left", fault.what
    return outcome, ""


def _todays(name: str, content: Mapping[str, Any], code: Code) -> Iterator[dict[str, Any]]:
    """The contents of version 2 that a content of version 1 stands for: one, or several that it did not tell apart."""
    seen: set[str] = set()
    for beginning in beginnings(name, content):
        old, new = code.listings(beginning)
        if old != content[CODE]:
            continue
        carried = _plain_digests({**content, CODE: new}, code)
        if carried is not None and content_key(name, carried) not in seen:
            seen.add(content_key(name, carried))
            yield carried


def _plain_digests(content: dict[str, Any], code: Code) -> dict[str, Any] | None:
    """The content with a digest where version 1 named code inside another field; None where that code has changed."""
    told = UNTRAINED.fullmatch(str(content.get("ranker", "")))
    if told is None:
        return content
    old, new = code.listings(["genrec_unlearn_bench.evaluation.untrained"])
    if json.loads(told.group(2)) != old:
        return None
    return {**content, "ranker": f"untrained {told.group(1)} {code_digest(new)}"}


def _link(entry: Entry, manifest: StageManifest, target: Path, content: dict[str, Any], *, shared: bool) -> None:
    """The stage under another key, in the same files. Raises CorruptArtefact where they do not match their digests."""
    with atomic_folder(target, OPTION) as draft:
        for relative in manifest.files:
            path = draft / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(entry.path / relative, path)
            except FileNotFoundError:
                raise CorruptArtefact("a file is missing", where=str(entry.path / relative)) from None
            except OSError:
                # No hard links here: the stage then takes its room twice until the old key is collected.
                shutil.copy2(entry.path / relative, path)
        written = write_manifest(
            draft,
            entry.name,
            target.name,
            content,
            seconds=manifest.seconds,
            account=manifest.account,
            was=entry.key,
        )
        if written.digest != manifest.digest:
            raise CorruptArtefact("a file does not match its digest", where=str(entry.path))
        os.utime(draft / MANIFEST, (entry.made, entry.made))
        if shared:
            opened_to_group(draft)
    os.utime(target, (entry.read, entry.read))


def _why(content: Mapping[str, Any], code: Code) -> str:
    changed = code.changed(content[CODE])
    if not changed:
        return "it is of a method outside the package, or of a kind that is not known any more"
    outside = [module for module in changed if not module.startswith("genrec_unlearn_bench.")]
    if outside:
        return "it is of a method outside the package"
    return f"its code has changed since: {_listed(changed)}"


def _listed(modules: Iterable[str]) -> str:
    names = [module.removeprefix("genrec_unlearn_bench.") for module in modules]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
