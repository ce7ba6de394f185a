"""``bench results export``: a run's ranked lists and targets for other evaluation tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.console import open_store
from genrec_unlearn_bench.config import one_of

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.record import RunRecord
    from genrec_unlearn_bench.store.store import StageStore


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
    from genrec_unlearn_bench.pipeline.results import PLACES, find_run, read_record

    places = tuple(dict.fromkeys([results_dir, *PLACES]))
    folders = list(dict.fromkeys(find_run(text, places) for text in runs))
    # All are read before anything is written, so that a wrong name among them leaves nothing half done.
    records = [read_record(folder) for folder in folders]
    written: list[dict[str, Any]] = []
    lines: list[str] = []
    with open_store(cache_dir) as (store, _):
        for folder, record in zip(folders, records, strict=True):
            cell = record.cell
            name = f"{cell.task}-{cell.backbone}-{cell.method}-{cell.scale}-seed{cell.seed}-{record.key[:10]}"
            files = _write(record, store, out if len(records) == 1 else out / name, ids)
            written.append({"run": str(folder), "key": record.key, "files": files})
            lines.append(f"{folder}:")
            lines += [f"  {file['path']}  ({file['lines']} lines, {file['queries']} queries)" for file in files]
    return Output(written, lines)


def _write(record: RunRecord, store: StageStore, place: Path, ids: str) -> list[dict[str, Any]]:
    from genrec_unlearn_bench.files import atomic_text
    from genrec_unlearn_bench.pipeline.list_lookup import check_names, find_dataset_of, find_lists, trec_files

    found = find_lists(record, store)
    names = find_dataset_of(record, store).items.ids if ids == "own" else None
    if names is not None:
        check_names(names)
    written = []
    for file in trec_files(found, names):
        path = place / file.name
        atomic_text(path, file.text, "--out")
        written.append({"path": str(path), "lines": file.lines, "queries": file.queries})
    return written
