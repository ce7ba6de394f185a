"""``bench run``: one task, some methods, some seeds, and a table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.cli.console import open_store
from genrec_unlearn_bench.cli.leaderboard import Open, show_page
from genrec_unlearn_bench.config import named, one_of, overrides
from genrec_unlearn_bench.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from genrec_unlearn_bench.pipeline.cells import Failed, Tracked
    from genrec_unlearn_bench.pipeline.results import FinishedRun


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
    open_: Open = False,
) -> Output:
    """Run methods on a task: data, semantic IDs, recommender, unlearning, measurements, result.

    Finished stages are kept: a second method reuses the trained models and only runs its own unlearning, and an
    interrupted run goes on. The rows original and retrain come along. Give several values with commas.
    """
    from genrec_unlearn_bench.pipeline.cells import cells_of, run_cells
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
    cells = cells_of(shared, named(backbone), named(method), seed or [0])
    with open_store(cache_dir, shared_cache) as (store, progress):
        finished, failed = run_cells(cells, store, progress, _tracked(named(tracker), tracker_dir))
    return _outcome(finished, failed, beam, results_dir if open_ else None)


def _outcome(finished: Sequence[FinishedRun], failed: Failed, beam: int, shown: Path | None) -> Output:
    """Results, what failed on stderr, and the worst exit code of that; a method that diverged counts.

    Args:
        shown: Results folder whose page is shown in a browser.
    """
    if shown is not None and finished:
        show_page(shown)
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


def _tracked(names: Sequence[str], folder: Path) -> Tracked | None:
    """What sends a cell's losses to the named trackers."""
    if not names:
        return None
    from genrec_unlearn_bench.executors.trackers import tracked, tracking_of
    from genrec_unlearn_bench.grid.expand import cell_name

    tracking = tracking_of(names, folder)
    return lambda request, progress: tracked(progress, tracking, cell_name(request))


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
