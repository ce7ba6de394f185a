"""``bench cache``: list, free and check the store of computed stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from genrec_unlearn_bench.cli.command import Output, first_lines, sheet
from genrec_unlearn_bench.cli.options import CacheDir, cache_root
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress_display import duration, print_line, progressing

if TYPE_CHECKING:
    from rich.table import Table

    from genrec_unlearn_bench.store.inventory import Collected, Listing

_REMOVED = {
    "older": "not read for so long",
    "not kept": "that no result named here was made from",
    "over size": "beyond the size, read longest ago",
    "old recipe": "of an older recipe, which nothing reads",
    "draft": "drafts of processes that were killed",
    "unfinished": "folders of unfinished work that nobody will resume",
}


def ls(cache_dir: CacheDir = None) -> Output:
    """List what the store holds, by kind of stage and backbone: how many, how large, how old, when last read."""
    from genrec_unlearn_bench.store.inventory import list_store

    found = list_store(_root(cache_dir))
    _notice_old(found.root)
    return Output(found.model_dump(mode="json"), _listing(found))


def gc(
    older_than: Annotated[str | None, Option(help="Stages not read for so long may go: 12h, 30d, 8w.")] = None,
    results_dir: Annotated[
        list[Path] | None, Option(help="Keep what these results were made from; all else may go.", metavar="DIR")
    ] = None,
    max_size: Annotated[str | None, Option(help="Remove what was read longest ago until so much is left: 20G.")] = None,
    recent: Annotated[bool, Option("--recent", help="Also stages that were read within the last day.")] = False,
    old: Annotated[bool, Option("--old", help="Remove stages of an older recipe, which nothing reads.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do it; without, only report what would be done.")] = False,
    cache_dir: CacheDir = None,
) -> Output:
    """Free space: leftovers of killed processes, and stages that a policy gives up, with the time they took to compute.

    Nothing that a process has locked goes, and nothing that was read within the last day unless --recent is given.
    Without --yes nothing is removed.
    """
    from genrec_unlearn_bench.store.inventory import BYTES, SECONDS, Policy, collect, keys_of_results, parse_amount

    root = _root(cache_dir)
    policy = Policy(
        older_than=parse_amount(older_than, SECONDS, where="--older-than") if older_than else None,
        max_size=int(parse_amount(max_size, BYTES, where="--max-size")) if max_size else None,
        keep=keys_of_results(results_dir) if results_dir else None,
        old=old,
        **({"spare": 0.0} if recent else {}),
    )
    with progressing() as progress:
        collected = collect(root, policy, progress, yes=yes)
    if not old:
        _notice_old(root)
    return Output(collected.model_dump(mode="json"), _collected_lines(collected))


def verify(
    stage: Annotated[list[str] | None, Option("--stage", help="Kind of stage (bench cache ls); several.")] = None,
    keep: Annotated[bool, Option("--keep", help="Leave damaged stages where they are.")] = False,
    cache_dir: CacheDir = None,
) -> Output:
    """Check every byte of the store against its digest; damaged stages are moved to quarantine/.

    Exit code 1 where something was damaged, which is computed again when it is next needed, or could not be read.
    """
    from genrec_unlearn_bench.store.inventory import verify_store

    with progressing() as progress:
        found = verify_store(_root(cache_dir), progress, only=stage or (), quarantine=not keep)
    parts = {"damaged": found.damaged, "unreadable": found.unreadable}
    lines = [
        f"{name}: {one.name} {one.key[:16]}: {one.what}{' (moved to quarantine)' if one.moved else ''}"
        for name, part in parts.items()
        for one in part
    ]
    lines.append(f"{found.stages} stages, {len(found.damaged)} damaged, {len(found.unreadable)} unreadable")
    content = {"stages": found.stages, **{name: [vars(one) for one in part] for name, part in parts.items()}}
    return Output(content, lines, exit_code=int(bool(found.damaged or found.unreadable)))


def _root(cache_dir: Path | None) -> Path:
    root = cache_root(cache_dir)
    if not root.is_dir():
        raise UsageError("there is no cache", where=str(root), hint="run something first, or name it with --cache-dir")
    return root


def _notice_old(root: Path) -> None:
    from genrec_unlearn_bench.store.store import old_store_notice

    if line := old_store_notice(root):
        print_line(line, stderr=True)


def _listing(found: Listing) -> list[str | Table]:
    from genrec_unlearn_bench.store.inventory import format_bytes

    rows = [
        (
            *(row.stage, row.backbone or "–", str(row.stages), format_bytes(row.size), duration(row.seconds)),
            *(duration(row.oldest), f"{duration(row.last_read)} ago"),
        )
        for row in found.rows
    ]
    stages, size, seconds = (sum(getattr(row, name) for row in found.rows) for name in ("stages", "size", "seconds"))
    rows.append(("all", "", str(stages), format_bytes(size), duration(seconds), "", ""))
    numbers = ("stages", "size", "to compute", "oldest", "last read")
    table = sheet(rows, ("stage", "backbone", *numbers), title=str(found.root), right=numbers)
    unreadable = f"{found.unreadable} whose manifest cannot be read: see `bench cache verify`"
    return [table, unreadable] if found.unreadable else [table]


def _collected_lines(collected: Collected) -> list[str]:
    from genrec_unlearn_bench.store.inventory import format_bytes

    if not collected.stages and not collected.leftovers:
        return [f"{collected.root}: nothing to remove, {collected.kept} stages stay"]
    verb = "removed" if collected.removed else "would be removed"
    freed = f"{collected.kept} stay; {format_bytes(collected.size)} freed"
    texts = {**collected.reasons, **collected.leftovers}
    lines = [f"{collected.root}: {collected.stages} stages {verb}, {freed}"]
    lines += [f"  {texts[reason]} {_REMOVED[reason]}" for reason in texts]
    if total := sum(collected.seconds.values()):
        parts = ", ".join(f"{name} {duration(part)}" for name, part in list(collected.seconds.items())[:6])
        lines.append(f"  computing them again would take {duration(total)}: {parts}")
    lines += first_lines([f"  left: {name} is in use, or belongs to somebody else" for name in collected.refused])
    return lines if collected.removed else [*lines, "nothing was removed: add --yes to do it"]
