"""``bench results``: ``compare`` two rows, ``export`` ranked lists, ``pull`` what others have published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.console import first_lines, open_store, print_line, progressing
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.pull import Pulled


def compare(
    first: Annotated[str, Argument(help="Method, or the label of a row as a table shows it.", metavar="A")],
    second: Annotated[str, Argument(help="The row to compare it with.", metavar="B")],
    metric: options.Metrics = None,
    results_dir: options.ResultsDirs = None,
    published: options.Published = False,
    protocol: options.Protocol = None,
    task: options.TaskNames = None,
    backbone: options.BackboneNames = None,
    ruleset: options.RulesetNames = None,
    scale: options.ScaleNames = None,
    suite: options.SuiteNames = None,
    beam: options.ListBeam = None,
    users: Annotated[bool, Option("--users", help="Compare checkpoints over users, seed by seed.")] = False,
    seed: Annotated[list[int] | None, Option(help="With --users: training seeds (default: all shared).", min=0)] = None,
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Compare two methods: paired over training seeds, corrected over the measures, block by block.

    The measures are the protocol's primary ones unless --metric names others; they are the family that Holm's
    correction is over. Methods that a table's marks are about are compared in the table's own families
    (bench leaderboard).
    """
    if seed and not users:
        raise UsageError(
            "--seed chooses checkpoints, and methods are compared over all seeds that they share",
            hint="leave it out, or add --users",
        )
    from genrec_unlearn_bench.reporting import checkpoints, comparisons

    found = options.read_results(results_dir, published=published, skip_broken=skip_broken, protocol=protocol)
    wanted = options.selection(task, backbone, None, ruleset, scale, suite)
    compared = found.compare(first, second, wanted, named(metric), beam=beam)
    if not users:
        return Output(
            lambda: comparisons.pairs_document(compared, found.protocol),
            [lambda console: comparisons.draw_pairs(console, compared, found.protocol)],
        )
    pairs = [
        pair for each in compared for pair in checkpoints.compare_checkpoints(each, found.protocol, seeds=seed or ())
    ]
    return Output(
        lambda: checkpoints.users_document(pairs, found.protocol),
        [lambda console: checkpoints.draw_checkpoints(console, pairs, found.protocol)],
    )


def export(
    runs: Annotated[list[str], Argument(help="Folders of results, or the beginnings of their keys.", metavar="RUN...")],
    out: Annotated[Path, Option(help="Folder to write to; of several runs, one in it for each.", metavar="DIR")],
    format_: Annotated[str, Option("--format", help="trec: run files and qrels.")] = "trec",
    ids: Annotated[str, Option(help="How items are named: own (the dataset's ids) or rows (their numbers).")] = "own",
    results_dir: Annotated[Path, Option(help="Where runs are looked for by key.", metavar="DIR")] = Path("results"),
    cache_dir: options.CacheDir = None,
) -> Output:
    """Write ranked lists and targets, so that ir-measures, ranx or trec_eval can compute ranking metrics.

    One qrels file a test group and one run file a group and beam. Queries are rows of the group's test examples, the
    same in every run of a task; users are not named. Lists lie in the cache that the run was made with.
    """
    one_of("format", format_, ("trec",))
    one_of("kind of id", ids, ("own", "rows"))
    from genrec_unlearn_bench.files import atomic_text
    from genrec_unlearn_bench.pipeline.list_lookup import check_names, find_dataset_of, find_lists, trec_files
    from genrec_unlearn_bench.pipeline.results import PLACES, find_run, read_record

    places = tuple(dict.fromkeys([results_dir, *PLACES]))
    folders = list(dict.fromkeys(find_run(text, places) for text in runs))
    # All are read before anything is written, so that a wrong name among them leaves nothing half done.
    records = [read_record(folder) for folder in folders]
    exported: list[dict[str, Any]] = []
    lines: list[str] = []
    with open_store(cache_dir) as (store, _):
        for folder, record in zip(folders, records, strict=True):
            cell = record.cell
            name = f"{cell.task}-{cell.backbone}-{cell.method}-{cell.scale}-seed{cell.seed}-{record.key[:10]}"
            place = out if len(records) == 1 else out / name
            found = find_lists(record, store)
            item_ids = find_dataset_of(record, store).items.ids if ids == "own" else None
            if item_ids is not None:
                check_names(item_ids)
            lines.append(f"{folder}:")
            files = []
            for file in trec_files(found, item_ids):
                atomic_text(place / file.name, file.text, "--out")
                files.append({"path": str(place / file.name), "lines": file.lines, "queries": file.queries})
                lines.append(f"  {place / file.name}  ({file.lines} lines, {file.queries} queries)")
            exported.append({"run": str(folder), "key": record.key, "files": files})
    return Output(exported, lines)


def pull(
    place: Annotated[str, Argument(help="A folder, or http(s)://… of one that is served.", metavar="PLACE")],
    task: options.TaskNames = None,
    backbone: options.BackboneNames = None,
    method: options.MethodNames = None,
    ruleset: options.RulesetNames = None,
    scale: options.ScaleNames = None,
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
    from genrec_unlearn_bench.store.inventory import format_bytes
    from genrec_unlearn_bench.submissions import pull as pulling

    if write_index:
        path, count = pulling.write_index(Path(place))
        return Output({"index": str(path), "results": count}, [f"{path}: {count} results"])
    found = pulling.find_place(place)
    given = {"task": task, "backbone": backbone, "method": method, "ruleset": ruleset, "scale": scale}
    wanted = pulling.select_offered(found.index, {field: named(values) for field, values in given.items() if values})
    size = sum(file.size for one in wanted for file in one.files.values())
    print_line(f"{len(wanted)} results, {format_bytes(size)}, from {place}", stderr=True)
    with progressing() as progress:
        brought = () if dry_run else pulling.pull_results(found, wanted, results_dir, progress)
    return _pulled(brought)


def _pulled(brought: Sequence[Pulled]) -> Output:
    counts = Counter(one.outcome for one in brought)
    failed = [f"failed: {one.what}: {one.fault}" for one in brought if one.outcome == "failed"]
    kept = [one.what for one in brought if one.outcome == "kept"]
    lines = [*first_lines(failed), *(f"kept: {what}: something else lies here under that name" for what in kept)]
    lines.append(", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing was pulled")
    lines += ["run the same command again: it goes on where it stopped"] if failed else []
    content = {"counts": dict(counts), "brought": [vars(one) for one in brought]}
    return Output(content, lines, exit_code=int(bool(failed)))
