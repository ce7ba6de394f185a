"""``bench cache``: list, free and check the store of computed stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, first_lines, sheet
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress_display import print_line, progressing

if TYPE_CHECKING:
    from genrec_unlearn_bench.store.collection import Collected

_REMOVED = {
    "older": "not read for so long",
    "not kept": "that no result named here was made from",
    "over size": "beyond the size, read longest ago",
    "old recipe": "of an older recipe, which nothing reads",
    "draft": "drafts of processes that were killed",
    "unfinished": "folders of unfinished work that nobody will resume",
}


def ls(cache_dir: options.CacheDir = None) -> Output:
    """List what the store holds, by kind of stage and backbone: how many, how large, how old, when last read."""
    from genrec_unlearn_bench.store.inventory import format_bytes, format_seconds, list_store
    from genrec_unlearn_bench.store.store import old_store_notice

    found = list_store(_root(cache_dir))
    if notice := old_store_notice(found.root):
        print_line(notice, stderr=True)
    rows = [
        (
            *(row.stage, row.backbone or "–", str(row.stages), format_bytes(row.size), format_seconds(row.seconds)),
            *(format_seconds(row.oldest), f"{format_seconds(row.last_read)} ago"),
        )
        for row in found.rows
    ]
    stages, size, seconds = (sum(getattr(row, name) for row in found.rows) for name in ("stages", "size", "seconds"))
    rows.append(("all", "", str(stages), format_bytes(size), format_seconds(seconds), "", ""))
    numbers = ("stages", "size", "to compute", "oldest", "last read")
    parts: list[str | Table] = [sheet(rows, ("stage", "backbone", *numbers), title=str(found.root), right=numbers)]
    if found.unreadable:
        parts.append(f"{found.unreadable} whose manifest cannot be read: see `bench cache verify`")
    return Output(found.model_dump(mode="json"), parts)


def gc(
    older_than: Annotated[str | None, Option(help="Stages not read for so long may go: 12h, 30d, 8w.")] = None,
    results_dir: Annotated[
        list[Path] | None, Option(help="Keep what these results were made from; all else may go.", metavar="DIR")
    ] = None,
    max_size: Annotated[str | None, Option(help="Remove what was read longest ago until so much is left: 20G.")] = None,
    recent: Annotated[bool, Option("--recent", help="Also stages that were read within the last day.")] = False,
    old: Annotated[bool, Option("--old", help="Remove stages of an older recipe, which nothing reads.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do it; without, only report what would be done.")] = False,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Free space: leftovers of killed processes, and stages that a policy gives up, with the time they took to compute.

    Nothing that a process has locked goes, and nothing that was read within the last day unless --recent is given.
    Without --yes nothing is removed.
    """
    from genrec_unlearn_bench.store import collection, inventory
    from genrec_unlearn_bench.store.store import old_store_notice

    root = _root(cache_dir)
    policy = collection.Policy(
        older_than=inventory.parse_seconds(older_than, where="--older-than") if older_than else None,
        max_size=inventory.parse_bytes(max_size, where="--max-size") if max_size else None,
        keep=collection.keys_of_results(results_dir) if results_dir else None,
        old=old,
        **({"spare": 0.0} if recent else {}),
    )
    with progressing() as progress:
        collected = collection.collect(root, policy, progress, yes=yes)
    if not old and (notice := old_store_notice(root)):
        print_line(notice, stderr=True)
    return Output(collected.model_dump(mode="json"), _collected_lines(collected))


def _collected_lines(collected: Collected) -> list[str]:
    from genrec_unlearn_bench.store.inventory import format_bytes, format_seconds

    if not collected.stages and not collected.leftovers:
        return [f"{collected.root}: nothing to remove, {collected.kept} stages stay"]
    verb = "removed" if collected.removed else "would be removed"
    freed = f"{collected.kept} stay; {format_bytes(collected.size)} freed"
    texts = {**collected.reasons, **collected.leftovers}
    lines = [f"{collected.root}: {collected.stages} stages {verb}, {freed}"]
    lines += [f"  {texts[reason]} {_REMOVED[reason]}" for reason in texts]
    if total := sum(collected.seconds.values()):
        parts = ", ".join(f"{name} {format_seconds(part)}" for name, part in list(collected.seconds.items())[:6])
        lines.append(f"  computing them again would take {format_seconds(total)}: {parts}")
    lines += first_lines([f"  left: {name} is in use, or belongs to somebody else" for name in collected.refused])
    return lines if collected.removed else [*lines, "nothing was removed: add --yes to do it"]


def verify(
    stage: Annotated[list[str] | None, Option("--stage", help="Kind of stage (bench cache ls); several.")] = None,
    keep: Annotated[bool, Option("--keep", help="Leave damaged stages where they are.")] = False,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Check every byte of the store against its digest; damaged stages are moved to quarantine/.

    Exit code 1 where something was damaged, which is computed again when it is next needed, or could not be read.
    """
    from genrec_unlearn_bench.store.inventory import verify_store

    with progressing() as progress:
        found = verify_store(_root(cache_dir), progress, only=stage or (), quarantine=not keep)
    lines = [
        f"damaged: {one.name} {one.key[:16]}: {one.what} ({'moved to quarantine' if one.moved else 'still there'})"
        for one in found.damaged
    ]
    lines += [f"not readable: {one.name} {one.key[:16]}: {one.what}" for one in found.unreadable]
    unread = f", {len(found.unreadable)} not readable" if found.unreadable else ""
    lines.append(f"{found.stages} stages, {len(found.damaged)} damaged{unread}")
    parts = {"damaged": found.damaged, "unreadable": found.unreadable}
    content = {"stages": found.stages, **{name: [vars(one) for one in part] for name, part in parts.items()}}
    return Output(content, lines, exit_code=int(bool(found.damaged or found.unreadable)))


def _root(cache_dir: Path | None) -> Path:
    root = options.cache_root(cache_dir)
    if not root.is_dir():
        raise UsageError("there is no cache", where=str(root), hint="run something first, or name it with --cache-dir")
    return root
