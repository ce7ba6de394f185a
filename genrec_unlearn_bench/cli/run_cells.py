"""``bench run``: one task, some methods, some seeds, and a table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug, SharedCache
from genrec_unlearn_bench.cli.run_options import (
    Backbones,
    Beam,
    Device,
    Encoder,
    Measure,
    Method,
    OracleSeeds,
    Requests,
    ResultsDir,
    Ruleset,
    Scale,
    Seed,
    Set,
    SetBackbone,
    SetMeasure,
    SetSid,
    Shadows,
    Suite,
    Task,
    Threads,
    TrackerDir,
    Trackers,
    TunedDir,
)
from genrec_unlearn_bench.config import overrides
from genrec_unlearn_bench.errors import (
    BenchError,
    CapabilityMissing,
    DataMissing,
    StorageError,
    UnknownName,
    UsageError,
)
from genrec_unlearn_bench.launch import launched, place
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genrec_unlearn_bench.executors.trackers import Tracking
    from genrec_unlearn_bench.pipeline.pipeline import Finished
    from genrec_unlearn_bench.pipeline.request import RulesetName, RunRequest
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["named", "named_backbones", "run", "run_requests"]

FIRST_ROWS = ("original", "retrain")
"""Computed on the way to every other row, so they stand in every table."""


@handled
def run(
    task: Task,
    method: Method,
    backbone: Backbones = ["tiger"],  # noqa: B006
    seed: Seed = None,
    scale: Scale = None,
    suite: Suite = "core",
    measure: Measure = None,
    data_dir: DataDir = None,
    encoder: Encoder = None,
    device: Device = "auto",
    threads: Threads = None,
    set_: Set = None,
    set_backbone: SetBackbone = None,
    set_sid: SetSid = None,
    set_measure: SetMeasure = None,
    ruleset: Ruleset = "default",
    tuned_dir: TunedDir = Path("tuned"),
    oracle_seeds: OracleSeeds = 1,
    requests: Requests = 1,
    shadows: Shadows = 0,
    beam: Beam = 10,
    tracker: Trackers = None,
    tracker_dir: TrackerDir = Path("tracking"),
    results_dir: ResultsDir = Path("results"),
    cache_dir: CacheDir = None,
    shared_cache: SharedCache = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run methods on a task: data, semantic IDs, recommender, unlearning, measurements, result.

    Finished stages are kept, so that a second method on the same task pays for itself alone, and an interrupted run
    goes on where it stopped. The rows original and retrain come along with every method.
    """
    from genrec_unlearn_bench.pipeline.request import RunRequest

    _check_beam(beam)
    shared = RunRequest(
        task=task,
        method="original",
        scale=scale,
        suite=suite,
        measure=tuple(named(measure or [])),
        measure_set=overrides(set_measure or [], where="--set-measure"),
        data_dir=data_dir,
        encoder=encoder,
        device=device,
        threads=threads,
        backbone_set=overrides(set_backbone or [], where="--set-backbone"),
        sid_set=overrides(set_sid or [], where="--set-sid"),
        ruleset=_known_ruleset(ruleset),
        tuned_dir=tuned_dir,
        oracle_seeds=oracle_seeds,
        requests=requests,
        shadows=shadows,
        results_dir=results_dir,
    )
    cells = _requests(shared, named_backbones(backbone), named(method), seed or [0], overrides(set_ or []))
    _conclude(*_run_all(cells, cache_dir, named(tracker or []), tracker_dir), beam=beam, as_json=as_json)


def _run_all(
    cells: Sequence[RunRequest], cache_dir: Path | None, trackers: Sequence[str], tracker_dir: Path
) -> tuple[list[Finished], list[tuple[RunRequest, BenchError]]]:
    from genrec_unlearn_bench.executors.trackers import tracking_of
    from genrec_unlearn_bench.pipeline.lock import told_off_lock
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    tracking = tracking_of(trackers, tracker_dir)
    with progressing() as progress:
        if differs := told_off_lock():
            progress.info(differs)
        return run_requests(cells, StageStore(cache_dir or default_cache(), progress), progress, tracking)


def _check_beam(beam: int) -> None:
    if beam not in (10, 50):
        raise UsageError(f"the protocol decodes at beam 10 and 50, not {beam}", hint="use --beam 10 or --beam 50")


def _conclude(
    finished: Sequence[Finished], failed: Sequence[tuple[RunRequest, BenchError]], *, beam: int, as_json: bool
) -> None:
    """Show what was run, say what failed, and end with the worst exit code of that."""
    if place() == 0:
        _show(finished, beam=beam, as_json=as_json)
    for request, fault in failed:
        typer.echo(f"error: {request.backbone}, {request.method}, seed {request.seed}: {fault.render()}", err=True)
    if failed:
        raise typer.Exit(max(fault.exit_code for _, fault in failed))


def _known_ruleset(text: str) -> RulesetName:
    """The ruleset of that name. Raises UnknownName."""
    from genrec_unlearn_bench.pipeline.request import RulesetName

    if text not in get_args(RulesetName):
        raise UnknownName("ruleset", text, get_args(RulesetName))
    return cast("RulesetName", text)


def named(texts: Sequence[str]) -> list[str]:
    """What was named, once each; options may be repeated or hold commas."""
    return list(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def named_backbones(texts: Sequence[str]) -> list[str]:
    """The backbones of a ``--backbone`` option; ``all`` stands for every one. Raises UsageError where none is named."""
    from genrec_unlearn_bench.backbones.catalogue import backbones

    names = named(texts)
    names = list(backbones()) if names == ["all"] else names
    if not names:
        raise UsageError("no backbone was named", hint="--backbone tiger, for example (bench ls backbones)")
    return names


def _alone(backbones: Sequence[str], shared: RunRequest) -> Sequence[str]:
    """The backbones; refuses options that mean one backbone in a call that names several."""
    if len(backbones) > 1 and (shared.backbone_set or shared.sid_set):
        raise UsageError(
            f"--set-backbone and --set-sid change one backbone's configuration, and this call names {len(backbones)}",
            hint="make one call for each backbone; finished stages are shared",
        )
    return backbones


def _requests(
    shared: RunRequest,
    backbones: Sequence[str],
    asked: Sequence[str],
    seeds: Sequence[int],
    changes: Mapping[str, Any],
) -> list[RunRequest]:
    """Reference rows first, then what was asked for, each once, for every backbone and seed."""
    backbones = _alone(backbones, shared)
    if not asked:
        raise UsageError("no method was named", hint="--method tracer, for example (bench ls methods)")
    changed = [name for name in dict.fromkeys(asked) if name not in REFERENCE_ROWS]
    if changes and len(changed) != 1:
        raise UsageError(
            f"--set changes one method's configuration, and this call names {len(changed) or 'none'}",
            hint="make one call for each method; finished stages are shared",
        )
    names = dict.fromkeys([*(FIRST_ROWS if shared.oracle_seeds else FIRST_ROWS[:1]), *asked])
    return [
        shared.model_copy(
            update={
                "backbone": backbone,
                "method": name,
                "seed": seed,
                "method_set": {} if name in REFERENCE_ROWS else dict(changes),
            }
        )
        for backbone in backbones
        for seed in dict.fromkeys(seeds)
        for name in names
    ]


def run_requests(
    requests: Sequence[RunRequest], store: StageStore, progress: Progress, tracking: Tracking | None = None
) -> tuple[list[Finished], list[tuple[RunRequest, BenchError]]]:
    """Run cells one after the other; one that fails does not stop the rest, unless nothing else can work either.

    Where several backbones are asked for, one that cannot serve a method, or fails by itself, does not stop the others.
    """
    from genrec_unlearn_bench.executors.trackers import tracked
    from genrec_unlearn_bench.grid.cell import cell_name
    from genrec_unlearn_bench.pipeline.run import run_cell
    from genrec_unlearn_bench.pipeline.setting import settle
    from genrec_unlearn_bench.pipeline.workroom import Shelf

    several = len({request.backbone for request in requests}) > 1
    finished: list[Finished] = []
    failed: list[tuple[RunRequest, BenchError]] = []
    # All that is wrong with the call shows before the first minute is spent.
    for request in requests:
        try:
            settle(request)
        except CapabilityMissing as fault:
            if not several:
                raise
            failed.append((request, fault))
    requests = [request for request in requests if all(request is not refused for refused, _ in failed)]
    shelf = Shelf()
    broken: set[tuple[str, int]] = set()
    for number, request in enumerate(requests, start=1):
        if (request.backbone, request.seed) in broken:
            continue
        backbone = f"{request.backbone} · " if several else ""
        progress.info(f"[{number}/{len(requests)}] {request.task} · {backbone}{request.method} · seed {request.seed}")
        try:
            with tracked(progress, tracking, cell_name(request)) as told:
                finished.append(run_cell(request, store, told, shelf=shelf))
        except (DataMissing, StorageError):
            raise
        except BenchError as fault:
            first = request.method in FIRST_ROWS
            # Of several processes, the others wait in the middle of this cell: none of them can go on to the next.
            if launched() > 1 or len(requests) == 1 or (first and not several):
                raise
            failed.append((request, fault))
            if first:
                broken.add((request.backbone, request.seed))
    return finished, failed


def _show(finished: Sequence[Finished], *, beam: int, as_json: bool) -> None:
    from genrec_unlearn_bench.cli.measured_table import measured_table
    from genrec_unlearn_bench.cli.run_table import run_table
    from genrec_unlearn_bench.cli.stream_table import stream_table

    if as_json:
        print_json([_document(done) for done in finished])
        return
    console = stdout()
    if not finished:
        return
    console.print(run_table([done.record for done in finished], beam=beam))
    for further in (measured_table([done.record for done in finished]), stream_table(finished)):
        if further is not None:
            console.print(further)
    several = len({done.record.cell.backbone for done in finished}) > 1
    for done in finished:
        cell = done.record.cell
        name = f"{cell.backbone}, {cell.method}" if several else cell.method
        console.print(f"  {name}, seed {cell.seed}: {done.folder}", soft_wrap=True)


def _document(done: Finished) -> dict[str, Any]:
    from genrec_unlearn_bench.cli.stream_table import stream_rows

    found = {"folder": str(done.folder), "record": done.record.model_dump(mode="json")}
    return found if done.record.cell.requests == 1 else {**found, "stream": stream_rows(done.folder)}
