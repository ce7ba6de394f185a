"""``bench run``: one task, some methods, some seeds, and a table at the end."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, cast, get_args

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.console import open_store
from genrec_unlearn_bench.config import named, one_of, overrides
from genrec_unlearn_bench.errors import BenchError, CapabilityMissing, DataMissing, StorageError, UsageError
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.launch import launched
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from genrec_unlearn_bench.executors.trackers import Tracking
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.results import FinishedRun
    from genrec_unlearn_bench.pipeline.stage import SessionCache
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.store.store import StageStore

FIRST_ROWS = ("original", "retrain")
"""Computed on the way to every other row, so they stand in every table."""

Failed = list[tuple["RunRequest", BenchError]]


def run(
    task: options.Task,
    method: options.Method,
    backbone: options.Backbones = ["tiger"],  # noqa: B006
    seed: options.Seed = None,
    scale: options.Scale = None,
    suite: options.Suite = "core",
    measure: options.Measure = None,
    data_dir: options.DataDir = None,
    encoder: options.Encoder = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    set_: options.Set = None,
    set_backbone: options.SetBackbone = None,
    set_sid: options.SetSid = None,
    set_measure: options.SetMeasure = None,
    ruleset: options.Ruleset = "default",
    tuned_dir: options.TunedDir = Path("tuned"),
    oracle_seeds: options.OracleSeeds = 1,
    requests: options.Requests = 1,
    shadows: options.Shadows = 0,
    beam: options.Beam = 10,
    tracker: options.Trackers = None,
    tracker_dir: options.TrackerDir = Path("tracking"),
    results_dir: options.ResultsDir = Path("results"),
    cache_dir: options.CacheDir = None,
    shared_cache: options.SharedCache = None,
) -> Output:
    """Run methods on a task: data, semantic IDs, recommender, unlearning, measurements, result.

    Finished stages are kept, so that a second method on the same task pays for itself alone, and an interrupted run
    goes on where it stopped. The rows original and retrain come along with every method. Options that take
    several values are repeated, or given them with commas.
    """
    from genrec_unlearn_bench.pipeline.request import RulesetName, RunRequest

    check_beam(beam)
    shared = RunRequest(
        task=task,
        method="original",
        scale=scale,
        suite=suite,
        measure=named(measure),
        data_dir=data_dir,
        encoder=encoder,
        device=device,
        threads=threads,
        **changed_fields(set_, set_backbone, set_sid, set_measure),
        ruleset=cast("RulesetName", one_of("ruleset", ruleset, get_args(RulesetName))),
        tuned_dir=tuned_dir,
        oracle_seeds=oracle_seeds,
        requests=requests,
        shadows=shadows,
        results_dir=results_dir,
    )
    cells = _cells(shared, *chosen_names(shared, backbone, method), seed or [0])
    with open_store(cache_dir, shared_cache) as (store, progress):
        finished, failed = _run_all(cells, store, progress, _tracking(named(tracker), tracker_dir))
    return _outcome(finished, failed, beam)


def _outcome(finished: Sequence[FinishedRun], failed: Failed, beam: int) -> Output:
    """Results, what failed on stderr, and the worst exit code of that; a method that diverged counts."""
    diverged = [done.record.cell for done in finished if done.record.diverged]
    faults = [f"diverged: {one.backbone}, {one.method}, seed {one.seed}: not finite, see the row" for one in diverged]
    faults += [f"error: {one.backbone}, {one.method}, seed {one.seed}: {fault.render()}" for one, fault in failed]
    code = max(int(bool(faults)), *(fault.exit_code for _, fault in failed), 0)
    parts = [lambda console: _draw(finished, beam, console)] if finished else []
    return Output(lambda: [_document(done) for done in finished], parts, code, faults)


def check_beam(beam: int) -> None:
    """Raise UsageError for a beam width that results have no lists of."""
    if beam not in (10, 50):
        raise UsageError(f"the protocol decodes at beam 10 and 50, not {beam}", hint="use --beam 10 or --beam 50")


def changed_fields(
    method: Sequence[str] | None,
    backbone: Sequence[str] | None,
    sid: Sequence[str] | None,
    measure: Sequence[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Fields of a request from ``--set``, ``--set-backbone``, ``--set-sid`` and ``--set-measure``."""
    return {
        "method_set": overrides(method or []),
        "backbone_set": overrides(backbone or [], where="--set-backbone"),
        "sid_set": overrides(sid or [], where="--set-sid"),
        "measure_set": overrides(measure or [], where="--set-measure"),
    }


def _tracking(trackers: Sequence[str], folder: Path) -> Tracking | None:
    if not trackers:
        return None
    from genrec_unlearn_bench.executors.trackers import tracking_of

    return tracking_of(trackers, folder)


def chosen_names(
    shared: RunRequest, backbone: Sequence[str], method: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Backbones and methods of the options of these names; the backbone ``all`` stands for every one.

    Raises UsageError where none is named, or where an option changes one configuration and the call names several.
    """
    from genrec_unlearn_bench.backbones.catalogue import backbones as known_backbones

    backbones, methods = named(backbone), named(method)
    backbones = tuple(known_backbones()) if backbones == ("all",) else backbones
    if not backbones:
        raise UsageError("no backbone was named", hint="--backbone tiger, for example (bench ls backbones)")
    if len(backbones) > 1 and (shared.backbone_set or shared.sid_set):
        raise UsageError(
            f"--set-backbone and --set-sid change one backbone's configuration, and this call names {len(backbones)}",
            hint="make one call for each backbone; finished stages are shared",
        )
    if not methods:
        raise UsageError("no method was named", hint="--method tracer, for example (bench ls methods)")
    changed = [name for name in methods if name not in REFERENCE_ROWS]
    if shared.method_set and len(changed) != 1:
        raise UsageError(
            f"--set changes one method's configuration, and this call names {len(changed) or 'none'}",
            hint="make one call for each method; finished stages are shared",
        )
    return backbones, methods


def _cells(
    shared: RunRequest, backbones: Sequence[str], methods: Sequence[str], seeds: Sequence[int]
) -> list[RunRequest]:
    """Reference rows first, then the methods, each once, for every backbone and seed."""
    names = dict.fromkeys([*(FIRST_ROWS if shared.oracle_seeds else FIRST_ROWS[:1]), *methods])
    rows = [(name, {} if name in REFERENCE_ROWS else shared.method_set) for name in names]
    return [
        shared.model_copy(update={"backbone": backbone, "method": name, "seed": seed, "method_set": changes})
        for backbone in backbones
        for seed in dict.fromkeys(seeds)
        for name, changes in rows
    ]


def _run_all(
    requests: Sequence[RunRequest], store: StageStore, progress: Progress, tracking: Tracking | None
) -> tuple[list[FinishedRun], Failed]:
    """Run cells one after the other; one that fails does not stop the rest, unless nothing else can work either.

    With several backbones, one that cannot serve a method, or fails by itself, does not stop the others.
    """
    from genrec_unlearn_bench.pipeline.results import find_finished

    several = len({request.backbone for request in requests}) > 1
    there = {id(request): find_finished(request, store) for request in requests}
    failed = _refused([request for request in requests if there[id(request)] is None], progress, several=several)
    refused = [id(request) for request, _ in failed]
    requests = [request for request in requests if id(request) not in refused]
    finished: list[FinishedRun] = []
    session: SessionCache | None = None
    broken: set[tuple[str, int]] = set()
    for number, request in enumerate(requests, start=1):
        if (request.backbone, request.seed) in broken:
            continue
        backbone = f"{request.backbone} · " if several else ""
        progress.info(f"[{number}/{len(requests)}] {request.task} · {backbone}{request.method} · seed {request.seed}")
        done = there[id(request)]
        if done is not None:
            progress.info(f"result: from {done.folder}")
            finished.append(done)
            continue
        try:
            # Only here: results that are there need no torch.
            from genrec_unlearn_bench.pipeline.stage import SessionCache

            session = session or SessionCache()
            finished.append(_run_one(request, store, progress, tracking, session))
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


def _draw(finished: Sequence[FinishedRun], beam: int, console: Console) -> None:
    from genrec_unlearn_bench.cli.run_table import full_table, run_table, stream_table

    records = [done.record for done in finished]
    console.print(run_table(records, beam=beam))
    for further in (full_table(records), stream_table((done.record, done.folder) for done in finished)):
        if further is not None:
            console.print(further)
    several = len({record.cell.backbone for record in records}) > 1
    for done in finished:
        cell = done.record.cell
        name = f"{cell.backbone}, {cell.method}" if several else cell.method
        console.print(f"  {name}, seed {cell.seed}: {done.folder}", soft_wrap=True)


def _document(done: FinishedRun) -> dict[str, Any]:
    from genrec_unlearn_bench.cli.run_table import stream_rows

    found = {"folder": str(done.folder), "record": done.record.model_dump(mode="json")}
    return found if done.record.cell.requests == 1 else {**found, "stream": stream_rows(done.folder)}


def _refused(requests: Sequence[RunRequest], progress: Progress, *, several: bool) -> Failed:
    """Check requests before the first minute is spent: raise whatever is wrong with the call.

    With ``several`` backbones, requests that a backbone cannot serve are returned instead.
    """
    if not requests:
        return []
    from genrec_unlearn_bench.pipeline.environment import format_version_mismatches
    from genrec_unlearn_bench.pipeline.resolve import Catalogue, resolve

    catalogue = Catalogue()
    refused: Failed = []
    for request in requests:
        try:
            resolve(request, catalogue=catalogue)
        except CapabilityMissing as fault:
            if not several:
                raise
            refused.append((request, fault))
    _check_folder(requests[0].results_dir)
    if mismatches := format_version_mismatches():
        progress.info(mismatches)
    return refused


def _check_folder(folder: Path) -> None:
    """Try whether the results folder can be written to, before anything is trained. Raises StorageError."""
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    with guarded(folder, "--results-dir"), TemporaryFile(dir=nearest):
        pass


def _run_one(
    request: RunRequest, store: StageStore, progress: Progress, tracking: Tracking | None, session: SessionCache
) -> FinishedRun:
    from genrec_unlearn_bench.pipeline.run import run_cell

    if tracking is None:
        return run_cell(request, store, progress, cache=session)
    from genrec_unlearn_bench.executors.trackers import tracked
    from genrec_unlearn_bench.grid.expand import cell_name

    with tracked(progress, tracking, cell_name(request)) as tracked_progress:
        return run_cell(request, store, tracked_progress, cache=session)
