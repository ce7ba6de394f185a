"""``bench cache``: list, free and check the store of computed stages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from genrec_unlearn_bench.cli.console import handled, print_first, print_json, print_line, progressing, stdout
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, Debug, examples
from genrec_unlearn_bench.errors import UsageError, printable

if TYPE_CHECKING:
    from rich.table import Table

    from genrec_unlearn_bench.store.collection import Collected
    from genrec_unlearn_bench.store.inventory import Listing

__all__ = ["app"]

app = typer.Typer(
    help="Look after the store of computed stages.",
    epilog=examples("bench cache ls", "bench cache gc --keep-results results --yes"),
    no_args_is_help=True,
)

_REMOVED = {
    "older": "not read for so long",
    "not kept": "that no result named here was made from",
    "over size": "beyond the size, read longest ago",
    "old recipe": "of an older recipe, which nothing reads",
    "draft": "drafts of processes that were killed",
    "unfinished": "folders of unfinished work that nobody will resume",
}


@app.command("ls", epilog=examples("bench cache ls", "bench cache ls --cache-dir /shared/cache --json"))
@handled
def ls(cache_dir: CacheDir = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """List what the store holds, by kind of stage and backbone: how many, how large, how old, when last read."""
    from genrec_unlearn_bench.store.inventory import list_store

    root = _root(cache_dir)
    found = list_store(root)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        stdout().print(_listing_table(found))
    _notice_old(root)


@app.command(
    "gc",
    epilog=examples(
        "bench cache gc --keep-results results",
        "bench cache gc --older-than 30d --max-size 20G --yes",
        "bench cache gc --old --yes",
    ),
)
@handled
def gc(
    older_than: Annotated[str | None, Option(help="Stages not read for so long may go: 12h, 30d, 8w.")] = None,
    keep_results: Annotated[
        list[Path] | None,
        Option(help="Keep what the results of a folder were made from; alone, all else may go.", metavar="DIR"),
    ] = None,
    max_size: Annotated[
        str | None, Option(help="Let stages go, those read longest ago first, until so much is left: 500M, 20G.")
    ] = None,
    recent: Annotated[bool, Option("--recent", help="Also stages that were read within the last day.")] = False,
    old: Annotated[bool, Option("--old", help="Remove stages of an older recipe, which nothing reads.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do it; without, only report what would be done.")] = False,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Free space: leftovers of killed processes, and stages that a policy gives up, with the time they took to compute.

    Nothing that a process has locked goes, and nothing that was read within the last day unless --recent is given.
    Without --yes nothing is removed.
    """
    from genrec_unlearn_bench.store.collection import Policy, collect, keys_of_results
    from genrec_unlearn_bench.store.inventory import parse_bytes, parse_seconds

    root = _root(cache_dir)
    policy = Policy(
        older_than=parse_seconds(older_than, where="--older-than") if older_than else None,
        max_size=parse_bytes(max_size, where="--max-size") if max_size else None,
        keep=keys_of_results(keep_results) if keep_results else None,
        old=old,
        **({"spare": 0.0} if recent else {}),
    )
    with progressing() as progress:
        collected = collect(root, policy, progress, yes=yes)
    if as_json:
        print_json(collected.model_dump(mode="json"))
    else:
        _print_collected(collected)
    if not old:
        _notice_old(root)


@app.command("verify", epilog=examples("bench cache verify", "bench cache verify --stage original --json"))
@handled
def verify(
    stage: Annotated[
        list[str] | None, Option("--stage", help="Kind of stage, as `bench cache ls` names it; repeat it.")
    ] = None,
    keep: Annotated[bool, Option("--keep", help="Leave damaged stages where they are.")] = False,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check every byte of the store against its digest; damaged stages are moved to quarantine/.

    Exit code 1 where something was damaged, which is computed again when it is next needed, or could not be read.
    """
    from genrec_unlearn_bench.store.inventory import verify_store

    with progressing() as progress:
        found = verify_store(_root(cache_dir), progress, only=stage or (), quarantine=not keep)
    if as_json:
        parts = {"damaged": found.damaged, "unreadable": found.unreadable}
        print_json({"stages": found.stages, **{name: [vars(one) for one in part] for name, part in parts.items()}})
    else:
        for one in found.damaged:
            end = "moved to quarantine" if one.moved else "still there"
            print_line(f"damaged: {one.name} {one.key[:16]}: {one.what} ({end})")
        for one in found.unreadable:
            print_line(f"not readable: {one.name} {one.key[:16]}: {one.what}")
        unread = f", {len(found.unreadable)} not readable" if found.unreadable else ""
        print(f"{found.stages} stages, {len(found.damaged)} damaged{unread}")
    if found.damaged or found.unreadable:
        raise typer.Exit(1)


def _root(cache_dir: Path | None) -> Path:
    from genrec_unlearn_bench.store.store import default_cache

    root = cache_dir or default_cache()
    if not root.is_dir():
        raise UsageError("there is no cache", where=str(root), hint="run something first, or name it with --cache-dir")
    return root


def _notice_old(root: Path) -> None:
    from genrec_unlearn_bench.store.inventory import old_store_notice

    if line := old_store_notice(root):
        print_line(line, stderr=True)


def _listing_table(found: Listing) -> Table:
    """Stages by kind and backbone, and their sum."""
    from rich.table import Table

    from genrec_unlearn_bench.store.inventory import format_bytes, format_seconds

    unreadable = f"{found.unreadable} whose manifest cannot be read: see `bench cache verify`"
    caption = unreadable if found.unreadable else None
    table = Table("stage", "backbone", title=printable(str(found.root)), title_justify="left", caption=caption)
    for name in ("stages", "size", "to compute", "oldest", "last read"):
        table.add_column(name, justify="right")
    for row in found.rows:
        times = (format_seconds(row.seconds), format_seconds(row.oldest), f"{format_seconds(row.last_read)} ago")
        table.add_row(row.stage, printable(row.backbone) or "–", str(row.stages), format_bytes(row.size), *times)
    table.add_section()
    stages, size, seconds = (sum(getattr(row, name) for row in found.rows) for name in ("stages", "size", "seconds"))
    table.add_row("all", "", str(stages), format_bytes(size), format_seconds(seconds))
    return table


def _print_collected(collected: Collected) -> None:
    from genrec_unlearn_bench.store.inventory import format_bytes, format_seconds

    if not collected.stages and not collected.leftovers:
        print_line(f"{collected.root}: nothing to remove, {collected.kept} stages stay")
        return
    verb = "removed" if collected.removed else "would be removed"
    freed = f"{collected.kept} stay; {format_bytes(collected.size)} freed"
    print_line(f"{collected.root}: {collected.stages} stages {verb}, {freed}")
    texts = {**collected.reasons, **collected.leftovers}
    for reason in [*sorted(collected.reasons), *sorted(collected.leftovers)]:
        print(f"  {texts[reason]} {_REMOVED[reason]}")
    if total := sum(collected.seconds.values()):
        parts = ", ".join(f"{name} {format_seconds(part)}" for name, part in list(collected.seconds.items())[:6])
        print_line(f"  computing them again would take {format_seconds(total)}: {parts}")
    print_first([f"{name} is in use, or belongs to somebody else" for name in collected.refused], "  left")
    if not collected.removed:
        print("nothing was removed: add --yes to do it")
