"""``bench pull``: published results, and stages of a served store, from a folder or a static web site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, Debug
from genrec_unlearn_bench.cli.report_options import Backbones, Methods, Rulesets, Scales, Tasks, named
from genrec_unlearn_bench.errors import DataMissing, UnknownName, UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.pull.bringing import Brought
    from genrec_unlearn_bench.submissions.pull.index import OfferedResult, PullIndex

__all__ = ["pull"]

SHOWN = 10


@handled
def pull(
    place: Annotated[str, typer.Argument(help="A folder, or http(s)://… of one that is served.", metavar="PLACE")],
    task: Tasks = None,
    backbone: Backbones = None,
    method: Methods = None,
    ruleset: Rulesets = None,
    scale: Scales = None,
    results_dir: Annotated[Path, typer.Option(help="Where results are put.", metavar="DIR")] = Path("results"),
    stages: Annotated[
        bool, typer.Option("--stages", help="Pull stages of a store instead: originals, oracles, IDs, datasets.")
    ] = False,
    stage: Annotated[
        list[str] | None, typer.Option(help="With --stages, these kinds alone (bench cache ls names them).")
    ] = None,
    cache_dir: CacheDir = None,
    write_index: Annotated[
        bool, typer.Option("--write-index", help="Pull nothing: write the index by which others pull from this folder.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be pulled.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Fetch results that others have published, so that one pays for one's own method alone.

    Every file is held against the digest of the place's index; what lies here already is never written over. Given
    again, it goes on where it stopped. Exit code 1 where something could not be had, 3 for another protocol.
    """
    if write_index:
        _write_index(Path(place))
        return
    from genrec_unlearn_bench.store.store import default_cache
    from genrec_unlearn_bench.submissions.pull.place import find_place
    from genrec_unlearn_bench.submissions.pull.results import check_protocol, pull_results
    from genrec_unlearn_bench.submissions.pull.stages import pull_stages, stages_of

    found = find_place(place)
    asked = {"task": task, "backbone": backbone, "method": method, "ruleset": ruleset, "scale": scale}
    filters: dict[str, Sequence[str]] = {field: named(values) for field, values in asked.items() if values}
    # A store by itself offers stages and no results, and knows their backbones alone.
    wanted = [] if stages and not found.index.results else _selected(found.index, filters)
    check_protocol(wanted)
    with progressing() as progress:
        if stages:
            chosen = stages_of(
                found.index.stages,
                kinds=stage or (),
                backbones=filters.get("backbone", ()),
                results=wanted if found.index.results and set(filters) - {"backbone"} else None,
            )
            _say(f"{len(chosen)} stages", (file.size for one in chosen for file in one.files.values()), place)
            brought = () if dry_run else pull_stages(found, chosen, cache_dir or default_cache(), progress)
        else:
            _say(f"{len(wanted)} results", (file.size for one in wanted for file in one.files.values()), place)
            brought = () if dry_run else pull_results(found, wanted, results_dir, progress)
    _tell(brought, as_json=as_json)


def _selected(index: PullIndex, filters: dict[str, Sequence[str]]) -> list[OfferedResult]:
    """The results of the cells that were asked for. Raises UnknownName for a name that no result has."""
    for field, values in filters.items():
        known = {str(getattr(one, field)) for one in index.results}
        for value in values:
            if value not in known:
                raise UnknownName(f"{field} at this place", value, known)
    return [one for one in index.results if all(getattr(one, field) in values for field, values in filters.items())]


def _say(what: str, sizes: Iterable[int], place: str) -> None:
    import sys

    from genrec_unlearn_bench.store.amounts import format_bytes

    print(f"{what}, {format_bytes(sum(sizes))}, from {place}", file=sys.stderr)


def _tell(brought: Sequence[Brought], *, as_json: bool) -> None:
    counts = Counter(one.outcome for one in brought)
    failed = [one for one in brought if one.outcome == "failed"]
    if as_json:
        print_json({"counts": dict(counts), "brought": [vars(one) for one in brought]})
    else:
        for one in failed[:SHOWN]:
            print(f"failed: {one.what}: {one.fault}")
        if len(failed) > SHOWN:
            print(f"failed: … and {len(failed) - SHOWN} more")
        for one in brought:
            if one.outcome == "kept":
                print(f"kept: {one.what}: something else lies here under that name, and stays")
        print(", ".join(f"{counts[outcome]} {outcome}" for outcome in counts) or "nothing was pulled")
        if failed:
            print("run the same command again: it goes on where it stopped")
    if failed:
        raise typer.Exit(1)


def _write_index(folder: Path) -> None:
    from pydantic import ValidationError

    from genrec_unlearn_bench.files import atomic_text
    from genrec_unlearn_bench.submissions.pull.index import INDEX, index_of

    if not folder.is_dir():
        raise UsageError("an index is made of a folder", where=str(folder), hint="give a folder with results or stages")
    try:
        index = index_of(folder)
    except (OSError, ValidationError) as fault:
        raise DataMissing(f"a result cannot be read: {fault}", where=str(folder)) from None
    if not index.results and not index.stages:
        raise DataMissing("there is neither a result nor a stage", where=str(folder))
    atomic_text(folder / INDEX, index.text(), "the folder")
    print(f"{folder / INDEX}: {len(index.results)} results, {len(index.stages)} stages")
