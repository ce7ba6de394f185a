"""``bench cache``: list, free and check the store of computed stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from genrec_unlearn_bench.cli.command import Output, first_lines, sheet
from genrec_unlearn_bench.cli.options import CacheDir, cache_root
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress_display import duration, format_bytes, progressing


def ls(cache_dir: CacheDir = None) -> Output:
    """List what the store holds, by kind of stage: how many, how large, time to compute them again, when last read."""
    from genrec_unlearn_bench.store.inventory import list_store

    root = _root(cache_dir)
    rows = list_store(root)
    stages, size, seconds, unreadable = (
        sum(row[name] for row in rows) for name in ("stages", "size", "seconds", "unreadable")
    )
    shown = [
        (one["stage"], *_amounts(one["stages"], one["size"], one["seconds"]), f"{duration(one['last_read'])} ago")
        for one in rows
    ]
    numbers = ("stages", "size", "to compute", "last read")
    table = sheet(
        [*shown, ("all", *_amounts(stages, size, seconds), "")], ("stage", *numbers), title=str(root), right=numbers
    )
    note = [f"{unreadable} whose manifest cannot be read: see `bench cache verify`"] if unreadable else []
    return Output({"root": str(root), "rows": rows}, [table, *note])


def _amounts(stages: int, size: int, seconds: float) -> tuple[str, str, str]:
    return str(stages), format_bytes(size), duration(seconds)


def gc(
    older_than: Annotated[
        float | None, Option(help="Stages that were not read for so many days may go.", metavar="DAYS", min=0)
    ] = None,
    results_dir: Annotated[
        list[Path] | None, Option(help="Keep what these results were made from; all else may go.", metavar="DIR")
    ] = None,
    yes: Annotated[bool, Option("--yes", help="Do it; without, only report what would be done.")] = False,
    cache_dir: CacheDir = None,
) -> Output:
    """Free space: leftovers of killed processes, and stages that are not needed, with the time they took to compute.

    Nothing that a process has locked goes. With --results-dir alone, nothing goes that was read within the last day.
    Without --yes nothing is removed.
    """
    from genrec_unlearn_bench.store.inventory import collect, keys_of_results

    seconds = None if older_than is None else older_than * 86400
    keep = keys_of_results(results_dir) if results_dir else None
    with progressing() as progress:
        found = collect(_root(cache_dir), progress, older_than=seconds, keep=keep, yes=yes)
    lines = [
        f"{found['root']}: {found['stages']} stages and {found['leftovers']} leftovers of killed processes "
        f"{'removed' if yes else 'would be removed: add --yes to do it'}",
        f"  {found['kept']} stages stay; {format_bytes(found['size'])} freed; computing what goes again would take "
        f"{duration(found['seconds'])}",
        *first_lines([f"  left: {name} is in use, or belongs to somebody else" for name in found["refused"]]),
    ]
    return Output(found, lines)


def verify(cache_dir: CacheDir = None) -> Output:
    """Check every byte of the store against its digest; damaged stages are moved to quarantine/.

    Exit code 1 where something was damaged, which is computed again when it is next needed, or could not be read.
    """
    from genrec_unlearn_bench.store.inventory import verify_store

    with progressing() as progress:
        stages, damaged = verify_store(_root(cache_dir), progress)
    lines = [
        f"{one.name} {one.key[:16]}: {one.what} ({'moved to quarantine' if one.moved else 'still there'})"
        for one in damaged
    ]
    lines.append(f"{stages} stages, {len(damaged)} damaged or not readable")
    content = {"stages": stages, "damaged": [one._asdict() for one in damaged]}
    return Output(content, lines, exit_code=int(bool(damaged)))


def _root(cache_dir: Path | None) -> Path:
    root = cache_root(cache_dir)
    if not root.is_dir():
        raise UsageError("there is no cache", where=str(root), hint="run something first, or name it with --cache-dir")
    return root
