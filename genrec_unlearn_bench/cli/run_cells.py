"""``bench run``: one task, some methods, some seeds, and a table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug
from genrec_unlearn_bench.cli.run_options import (
    Backbone,
    Beam,
    Device,
    Encoder,
    Method,
    OracleSeeds,
    ResultsDir,
    Scale,
    Seed,
    Set,
    SetBackbone,
    SetSid,
    Suite,
    Task,
    Threads,
)
from genrec_unlearn_bench.config import overrides
from genrec_unlearn_bench.errors import BenchError, DataMissing, StorageError, UsageError
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.runs.pipeline import Finished
    from genrec_unlearn_bench.runs.request import RunRequest
    from genrec_unlearn_bench.runs.store import StageStore

__all__ = ["run", "run_requests"]

FIRST_ROWS = ("original", "retrain")
"""Computed on the way to every other row, so they stand in every table."""


@handled
def run(
    task: Task,
    method: Method,
    backbone: Backbone = "tiger",
    seed: Seed = None,
    scale: Scale = None,
    suite: Suite = "core",
    data_dir: DataDir = None,
    encoder: Encoder = None,
    device: Device = "auto",
    threads: Threads = None,
    set_: Set = None,
    set_backbone: SetBackbone = None,
    set_sid: SetSid = None,
    oracle_seeds: OracleSeeds = 1,
    beam: Beam = 10,
    results_dir: ResultsDir = Path("results"),
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
    asked = [name.strip() for text in method for name in text.split(",") if name.strip()]
    shared = RunRequest(
        task=task,
        method="original",
        backbone=backbone,
        scale=scale,
        suite=suite,
        data_dir=data_dir,
        encoder=encoder,
        device=device,
        threads=threads,
        backbone_set=overrides(set_backbone or [], where="--set-backbone"),
        sid_set=overrides(set_sid or [], where="--set-sid"),
        oracle_seeds=oracle_seeds,
        results_dir=results_dir,
    )
    requests = _requests(shared, asked, seed or [0], overrides(set_ or [], where="--set"))
    with progressing() as progress:
        finished, failed = run_requests(requests, StageStore(cache_dir or default_cache(), progress), progress)
    _show(finished, beam=beam, as_json=as_json)
    for request, fault in failed:
        typer.echo(f"error: {request.method}, seed {request.seed}: {fault.render()}", err=True)
    if failed:
        raise typer.Exit(max(fault.exit_code for _, fault in failed))


def _requests(
    shared: RunRequest, asked: Sequence[str], seeds: Sequence[int], changes: Mapping[str, Any]
) -> list[RunRequest]:
    """Reference rows first, then what was asked for, each once, for every seed."""
    if not asked:
        raise UsageError("no method was named", mend="--method tracer, for example (bench ls methods)")
    changed = [name for name in dict.fromkeys(asked) if name not in REFERENCE_ROWS]
    if changes and len(changed) != 1:
        raise UsageError(
            f"--set changes one method's configuration, and this call names {len(changed) or 'none'}",
            mend="make one call for each method; finished stages are shared",
        )
    names = dict.fromkeys([*(FIRST_ROWS if shared.oracle_seeds else FIRST_ROWS[:1]), *asked])
    return [
        shared.model_copy(
            update={"method": name, "seed": seed, "method_set": {} if name in REFERENCE_ROWS else dict(changes)}
        )
        for seed in dict.fromkeys(seeds)
        for name in names
    ]


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


def _show(finished: Sequence[Finished], *, beam: int, as_json: bool) -> None:
    from genrec_unlearn_bench.cli.run_table import run_table

    if as_json:
        print_json([{"folder": str(done.folder), "record": done.record.model_dump(mode="json")} for done in finished])
        return
    console = stdout()
    console.print(run_table([done.record for done in finished], beam=beam))
    for done in finished:
        console.print(f"  {done.record.cell.method}, seed {done.record.cell.seed}: {done.folder}", soft_wrap=True)
