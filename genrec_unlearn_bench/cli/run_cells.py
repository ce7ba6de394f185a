"""``bench run``: one task, some methods, some seeds, and a table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug
from genrec_unlearn_bench.config import overrides
from genrec_unlearn_bench.errors import BenchError, DataMissing, StorageError, UsageError
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.runs.pipeline import Finished
    from genrec_unlearn_bench.runs.request import RunRequest
    from genrec_unlearn_bench.runs.store import StageStore

__all__ = ["run", "run_requests"]

FIRST_ROWS = ("original", "retrain")
"""Computed on the way to every other row, so they stand in every table."""


@handled
def run(
    task: Annotated[str, typer.Option(help="Task, or the path of a task's YAML (bench ls tasks).")],
    method: Annotated[
        list[str],
        typer.Option(help="Method or reference row; several with commas or repeated; path/to/file.py:Class works."),
    ],
    backbone: Annotated[str, typer.Option(help="Backbone (bench ls backbones).")] = "tiger",
    seed: Annotated[list[int] | None, typer.Option(help="Training seed; repeat for several.", min=0)] = None,
    scale: Annotated[
        str | None, typer.Option(help="smoke, small, paper or official (default: smoke on demo, else small).")
    ] = None,
    suite: Annotated[str, typer.Option(help="Which measurements are taken.")] = "core",
    data_dir: DataDir = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="tfidf, minilm, a sentence-transformers folder or hub id (default: by scale)."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    threads: Annotated[int | None, typer.Option(help="CPU threads (default: physical cores).", min=1)] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field of the method's configuration: key=value.")
    ] = None,
    set_backbone: Annotated[
        list[str] | None, typer.Option(help="Change a field of the backbone's: training.epochs=20.")
    ] = None,
    set_sid: Annotated[list[str] | None, typer.Option(help="Change a field of the tokenizer's: codes=128.")] = None,
    oracle_seeds: Annotated[
        int, typer.Option(help="Retrained models that the gap is taken against; 0 trains none.", min=0, max=20)
    ] = 1,
    beam: Annotated[int, typer.Option(help="Beam width shown in the table: 10 (the paper's) or 50.")] = 10,
    results_dir: Annotated[Path, typer.Option(help="Where results are written.", metavar="DIR")] = Path("results"),
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run methods on a task: data, semantic IDs, recommender, unlearning, measurements, result.

    Finished stages are kept, so that a second method on the same task pays for itself alone, and an interrupted run
    goes on where it stopped. The rows original and retrain come along with every method.
    """
    from genrec_unlearn_bench.runs.request import RunRequest
    from genrec_unlearn_bench.runs.store import StageStore, default_cache

    if beam not in (10, 50):
        raise UsageError(f"the protocol decodes at beam 10 and 50, not {beam}", mend="use --beam 10 or --beam 50")
    names = _rows(method, oracle_seeds)
    changes = overrides(set_ or [], where="--set")
    changed_rows = [name for name in names if name not in FIRST_ROWS or name in _split(method)]
    if changes and len([name for name in changed_rows if name not in REFERENCE_ROWS]) != 1:
        raise UsageError(
            "--set changes one method's configuration, and this call has none or several", mend="one call each"
        )
    requests = [
        RunRequest(
            task=task,
            method=name,
            backbone=backbone,
            seed=number,
            scale=scale,
            suite=suite,
            data_dir=data_dir,
            encoder=encoder,
            device=device,
            threads=threads,
            method_set={} if name in REFERENCE_ROWS else changes,
            backbone_set=overrides(set_backbone or [], where="--set-backbone"),
            sid_set=overrides(set_sid or [], where="--set-sid"),
            oracle_seeds=oracle_seeds,
            results_dir=results_dir,
        )
        for number in dict.fromkeys(seed or [0])
        for name in names
    ]
    with progressing() as progress:
        finished, failed = run_requests(requests, StageStore(cache_dir or default_cache(), progress), progress)
    _show(finished, beam=beam, as_json=as_json)
    for request, fault in failed:
        typer.echo(f"error: {request.method}, seed {request.seed}: {fault.render()}", err=True)
    if failed:
        raise typer.Exit(max(fault.exit_code for _, fault in failed))


def run_requests(
    requests: Sequence[RunRequest], store: StageStore, progress: Progress
) -> tuple[list[Finished], list[tuple[RunRequest, BenchError]]]:
    """Run cells one after the other; one that fails does not stop the rest, unless nothing else can work either."""
    from genrec_unlearn_bench.runs.pipeline import run_cell
    from genrec_unlearn_bench.runs.setting import settle
    from genrec_unlearn_bench.runs.workroom import Shelf

    # All that is wrong with the call shows before the first minute is spent.
    for request in requests:
        settle(request)
    shelf = Shelf()
    finished: list[Finished] = []
    failed: list[tuple[RunRequest, BenchError]] = []
    for number, request in enumerate(requests, start=1):
        progress.say(f"[{number}/{len(requests)}] {request.task} · {request.method} · seed {request.seed}")
        try:
            finished.append(run_cell(request, store, progress, shelf=shelf))
        except (DataMissing, StorageError):
            raise
        except BenchError as fault:
            if len(requests) == 1 or request.method in FIRST_ROWS:
                raise
            failed.append((request, fault))
    return finished, failed


def _split(methods: Sequence[str]) -> list[str]:
    return [name.strip() for text in methods for name in text.split(",") if name.strip()]


def _rows(methods: Sequence[str], oracle_seeds: int) -> list[str]:
    """Reference rows first, then what was asked for, each once."""
    come_along = FIRST_ROWS if oracle_seeds else FIRST_ROWS[:1]
    return list(dict.fromkeys([*come_along, *_split(methods)]))


def _show(finished: Sequence[Finished], *, beam: int, as_json: bool) -> None:
    from genrec_unlearn_bench.cli.run_table import run_table

    if as_json:
        print_json([{"folder": str(done.folder), "record": done.record.model_dump(mode="json")} for done in finished])
        return
    console = stdout()
    console.print(run_table([done.record for done in finished], beam=beam))
    for done in finished:
        console.print(f"  {done.record.cell.method}, seed {done.record.cell.seed}: {done.folder}", soft_wrap=True)
