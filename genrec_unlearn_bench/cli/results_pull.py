"""``bench results pull``: published results from a folder or a static web site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from genrec_unlearn_bench.cli import options, results
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.console import first_lines, print_line, progressing
from genrec_unlearn_bench.config import named
from genrec_unlearn_bench.errors import DataMissing, UnknownName, UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.pull import OfferedResult, Pulled, PullIndex


def pull(
    place: Annotated[str, Argument(help="A folder, or http(s)://… of one that is served.", metavar="PLACE")],
    task: results.Tasks = None,
    backbone: results.Backbones = None,
    method: results.Methods = None,
    ruleset: results.Rulesets = None,
    scale: results.Scales = None,
    results_dir: options.ResultsDir = Path("results"),
    write_index: Annotated[
        bool, Option("--write-index", help="Only write the index by which others pull from it.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be pulled.")] = False,
) -> Output:
    """Fetch results that others have published, so that one pays for one's own method alone.

    Every file is held against the digest of the place's index; what lies here already is never written over. Given
    again, it goes on where it stopped. Exit code 1 where something could not be had, 3 for another protocol.
    """
    if write_index:
        return _write_index(Path(place))
    from genrec_unlearn_bench.store.inventory import format_bytes
    from genrec_unlearn_bench.submissions.pull import check_protocol, find_place, pull_results

    found = find_place(place)
    given = {"task": task, "backbone": backbone, "method": method, "ruleset": ruleset, "scale": scale}
    wanted = _selected(found.index, {field: named(values) for field, values in given.items() if values})
    check_protocol(wanted)
    size = sum(file.size for one in wanted for file in one.files.values())
    print_line(f"{len(wanted)} results, {format_bytes(size)}, from {place}", stderr=True)
    with progressing() as progress:
        brought = () if dry_run else pull_results(found, wanted, results_dir, progress)
    return _outcomes(brought)


def _selected(index: PullIndex, filters: dict[str, Sequence[str]]) -> list[OfferedResult]:
    """The results of the selected cells. Raises UnknownName for a name that no result has."""
    for field, values in filters.items():
        known = {str(getattr(one, field)) for one in index.results}
        for value in values:
            if value not in known:
                raise UnknownName(f"{field} at this place", value, known)
    return [one for one in index.results if all(getattr(one, field) in values for field, values in filters.items())]


def _outcomes(brought: Sequence[Pulled]) -> Output:
    counts = Counter(one.outcome for one in brought)
    failed = [f"failed: {one.what}: {one.fault}" for one in brought if one.outcome == "failed"]
    kept = [one.what for one in brought if one.outcome == "kept"]
    lines = [*first_lines(failed), *(f"kept: {what}: something else lies here under that name" for what in kept)]
    lines.append(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing was pulled")
    lines += ["run the same command again: it goes on where it stopped"] if failed else []
    content = {"counts": dict(counts), "brought": [vars(one) for one in brought]}
    return Output(content, lines, exit_code=int(bool(failed)))


def _write_index(folder: Path) -> Output:
    from pydantic import ValidationError

    from genrec_unlearn_bench.files import atomic_text
    from genrec_unlearn_bench.submissions.pull import INDEX, index_of

    if not folder.is_dir():
        raise UsageError("an index is made of a folder", where=str(folder), hint="give a folder with results")
    try:
        index = index_of(folder)
    except (OSError, ValidationError) as fault:
        raise DataMissing(f"a result cannot be read: {fault}", where=str(folder)) from None
    if not index.results:
        raise DataMissing("there is no result", where=str(folder))
    atomic_text(folder / INDEX, index.text(), "the folder")
    content = {"index": str(folder / INDEX), "results": len(index.results)}
    return Output(content, [f"{folder / INDEX}: {len(index.results)} results"])
