"""The cells of one call, one after the other. Results that are there already are read without importing torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from genrec_unlearn_bench.backbones import backbones as known_backbones
from genrec_unlearn_bench.errors import BenchError, CapabilityMissing, DataMissing, StorageError, UsageError
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.pipeline.request import TUNING_SEED, RunRequest
from genrec_unlearn_bench.pipeline.results import FinishedRun, find_finished
from genrec_unlearn_bench.progress import Progress, launched
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.stage import SessionCache
    from genrec_unlearn_bench.store.store import StageStore

FIRST_ROWS = ("original", "retrain")
"""Computed on the way to every other row, so they stand in every table."""

Failed = list[tuple[RunRequest, BenchError]]
Tracked = Callable[[RunRequest, Progress], AbstractContextManager[Progress]]


def expand_names(
    shared: RunRequest, backbones: Sequence[str], methods: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Backbones (``all``: every one) and methods of a call. Raises UsageError for none, and where ``shared`` changes
    the configuration of one of several."""
    backbones = tuple(known_backbones()) if tuple(backbones) == ("all",) else tuple(backbones)
    for kind, names, example in (("backbone", backbones, "tiger"), ("method", methods, "tracer")):
        if not names:
            raise UsageError(f"no {kind} was named", hint=f"--{kind} {example}, for example (bench ls {kind}s)")
    changed = [name for name in methods if name not in REFERENCE_ROWS]
    for kind, options, names, fields in (
        ("backbone", "--set-backbone and --set-sid change", backbones, {**shared.backbone_set, **shared.sid_set}),
        ("method", "--set changes", changed, shared.method_set),
    ):
        if fields and len(names) != 1:
            raise UsageError(
                f"{options} one {kind}'s configuration, and this call names {len(names) or 'none'}",
                hint=f"make one call for each {kind}; finished stages are shared",
            )
    return backbones, tuple(methods)


def cells_of(
    shared: RunRequest, backbones: Sequence[str], methods: Sequence[str], seeds: Sequence[int]
) -> list[RunRequest]:
    """Reference rows first, then the methods, each once, for every backbone and seed. Raises as ``expand_names``."""
    backbones, methods = expand_names(shared, backbones, methods)
    names = dict.fromkeys([*(FIRST_ROWS if shared.oracle_seeds else FIRST_ROWS[:1]), *methods])
    rows = [(name, {} if name in REFERENCE_ROWS else shared.method_set) for name in names]
    return [
        shared.model_copy(update={"backbone": backbone, "method": name, "seed": seed, "method_set": changes})
        for backbone in backbones
        for seed in dict.fromkeys(seeds)
        for name, changes in rows
    ]


def run_cells(
    requests: Sequence[RunRequest], store: StageStore, progress: Progress, tracked: Tracked | None = None
) -> tuple[list[FinishedRun], Failed]:
    """Run cells one after the other; returns results, and requests that failed with the reason.

    One that fails does not stop the rest, nor does a backbone that cannot serve a method. Raises UsageError before
    anything is done, BenchError where the only cell failed or what all others need.
    """
    several = len({request.backbone for request in requests}) > 1
    if late := sorted({request.seed for request in requests if request.seed >= TUNING_SEED}):
        progress.info(f"tables leave out runs of the seeds {late}: {TUNING_SEED} and above are for tuning")
    cells = [(request, find_finished(request, store)) for request in requests]
    if missing := [request for request, done in cells if done is None]:
        _check(missing, several=several)
    finished: list[FinishedRun] = []
    failed: Failed = []
    session: SessionCache | None = None
    broken: set[tuple[str, int]] = set()
    for number, (request, done) in enumerate(cells, start=1):
        if (request.backbone, request.seed) in broken:
            continue
        backbone = f"{request.backbone} · " if several else ""
        progress.info(f"[{number}/{len(cells)}] {request.task} · {backbone}{request.method} · seed {request.seed}")
        if done is not None:
            progress.info(f"result: from {done.folder}")
            finished.append(done)
            continue
        # Only here: results that are there need no torch.
        from genrec_unlearn_bench.pipeline.run import run_cell
        from genrec_unlearn_bench.pipeline.stage import SessionCache

        session = session or SessionCache()
        try:
            with tracked(request, progress) if tracked else nullcontext(progress) as shown:
                try:
                    finished.append(run_cell(request, store, shown, cache=session))
                except SystemExit as end:
                    what = f"{request.method!r} ended the process (exit code {end.code}), and returned no recommender"
                    raise BenchError(what, hint="a method returns, or raises an error that says why not") from end
        except (DataMissing, StorageError):
            raise
        except BenchError as fault:
            first = request.method in FIRST_ROWS
            # Of several processes, the others wait in the middle of this cell: none of them can go on to the next.
            if launched() > 1 or len(cells) == 1 or (first and not several):
                raise
            failed.append((request, fault))
            if first:
                broken.add((request.backbone, request.seed))
    return finished, failed


def _check(requests: Sequence[RunRequest], *, several: bool) -> None:
    """Raise whatever is wrong with the call before anything is trained. That one of ``several`` backbones cannot serve
    a method is no such fault: its cell fails."""
    from genrec_unlearn_bench.pipeline.resolve import Catalogue, resolve

    catalogue, tolerated = Catalogue(), (CapabilityMissing,) if several else ()
    for request in requests:
        with suppress(*tolerated):
            resolve(request, catalogue=catalogue)
    folder = requests[0].results_dir
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    with guarded(folder, "--results-dir"), TemporaryFile(dir=nearest):
        pass
