"""Running a cell: its stages in one loop, then its record, written to the results folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import BenchError, CorruptArtefact
from genrec_unlearn_bench.evaluation.collateral import change_from_original
from genrec_unlearn_bench.evaluation.gap import cost_values, gap_to_oracle
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.measured_parts import ExtraMetrics, compare_measurements
from genrec_unlearn_bench.evaluation.measurement import References
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.launch import place
from genrec_unlearn_bench.pipeline.context import Inputs, SessionCache, StageContext, materialise
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.finished import FinishedRun, find_finished, remember_finished
from genrec_unlearn_bench.pipeline.graph import RESULT, build_stages
from genrec_unlearn_bench.pipeline.record import Cost
from genrec_unlearn_bench.pipeline.record_builder import Outcome, build_record, cost_of
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, cell_of, resolve
from genrec_unlearn_bench.pipeline.results import find_result, read_record, result_folder, table_bytes, write_result
from genrec_unlearn_bench.pipeline.rulesets import ConfigSource
from genrec_unlearn_bench.pipeline.stage_log import LOSSES, read_notes
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.pipeline.stages.evaluate import Scores
from genrec_unlearn_bench.pipeline.stages.stream import StreamMetrics, divided, request_seconds, stream_metrics
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.pipeline.stage import Stage
    from genrec_unlearn_bench.pipeline.stages.data import PreparedTask

__all__ = ["FinishedRun", "find_finished", "run_cell"]


def run_cell(
    request: RunRequest,
    store: StageStore,
    progress: Progress | None = None,
    *,
    cache: SessionCache | None = None,
    source: ConfigSource | None = None,
) -> FinishedRun:
    """Run one cell and write its result; a result that is there already is read instead.

    Args:
        cache: What earlier cells of this session left in memory; give the same one to all of them.
        source: Where the method's configuration comes from, if not from the request's ruleset (a record's own).

    Raises:
        UsageError: The request itself is wrong; nothing was done.
        BenchError: Data, storage or the run failed; finished stages are kept.
    """
    resolved = resolve(request, source=source)
    context = StageContext(store, progress or Progress(), cache or SessionCache(), resolved.device)
    result = build_stages(resolved, progress=context.progress)[RESULT]
    done = _finished(resolved, result)
    if done is not None:
        context.progress.info(f"result: from {done.folder}")
    else:
        with determinism(resolved.threads):
            _check_task(resolved, result, context)
            for stage in result.inputs.values():
                materialise(stage, context)
            done = _conclude(resolved, result, context)
    if source is None and place() == 0:
        remember_finished(request, store, done)
    return done


def _finished(resolved: ResolvedRequest, result: Stage) -> FinishedRun | None:
    """The result of that key, if it is there and whole."""
    folder = find_result(resolved.request.results_dir, cell_of(resolved), result.key)
    if folder is None:
        return None
    try:
        record = read_record(folder)
    except CorruptArtefact:
        return None
    return FinishedRun(record, folder, cached=True) if record.key == result.key else None


def _check_task(resolved: ResolvedRequest, result: Stage, context: StageContext) -> None:
    """Refuse before any training what depends on the task's data.

    Raises:
        ProtocolMismatch: The method was tuned when the task resolved to something else.
        UsageError: The forget set cannot be divided into so many requests.
    """
    inputs = Inputs(result, context)
    if resolved.source.choice is not None:
        resolved.source.check_task(inputs["task"].manifest.digest)
    if resolved.request.requests > 1:
        prepared = prepare_task(inputs, resolved.encoder.key, holdout=resolved.suite.holdout)
        divided(prepared, inputs, resolved.request.requests)


def _conclude(resolved: ResolvedRequest, result: Stage, context: StageContext) -> FinishedRun:
    """Take the metrics from what the stages hold, and write the record."""
    inputs = Inputs(result, context)
    prepared = prepare_task(inputs, resolved.encoder.key, holdout=resolved.suite.holdout)
    cost = cost_of(resolved, inputs)
    own, before = inputs["scores of row"], inputs["scores of original"]
    oracles = [inputs[f"scores of {role}"] for role in _oracle_roles(inputs)]
    extra = _extra_metrics(resolved, inputs) if own.measured else ExtraMetrics()
    metrics = _metrics(own, before, oracles, extra) if own.measured else ()
    stream = _stream_metrics(resolved, inputs, prepared, cost) if resolved.request.requests > 1 else StreamMetrics()
    metrics = (*metrics, *_cost_metrics(cost), *stream.values)
    _check(metrics)
    tables = {name: table_bytes(table) for name, table in {**extra.tables, **stream.tables}.items()}
    record = build_record(resolved, result, context, inputs, prepared, Outcome(metrics, cost, tables))
    if place() > 0:
        return FinishedRun(record, result_folder(resolved.request.results_dir, record))
    folder = write_result(
        resolved.request.results_dir,
        record,
        prepared.split.manifest,
        per_user=own.per_user,
        losses=inputs.stored("row").path / LOSSES,
        tables=tables,
    )
    return FinishedRun(record, folder)


def _oracle_roles(inputs: Inputs) -> list[str]:
    """``retrain``, ``retrain 1`` …: the oracles that the row is held against."""
    return [role for role in inputs.stage.inputs if role.partition(" ")[0] == "retrain"]


def _metrics(own: Scores, before: Scores, oracles: Sequence[Scores], extra: ExtraMetrics) -> tuple[MetricValue, ...]:
    """What was measured on the run itself, against the original, and against the oracles."""
    values = (*own.values, *extra.values)
    further = extra.oracles or [()] * len(oracles)
    tables = None
    if own.per_user is not None and before.per_user is not None:
        tables = (read_per_user(own.per_user), read_per_user(before.per_user))
    return (
        *values,
        *change_from_original(own.values, before.values, tables=tables),
        *gap_to_oracle(values, [(*scores.values, *more) for scores, more in zip(oracles, further, strict=True)]),
    )


def _extra_metrics(resolved: ResolvedRequest, inputs: Inputs) -> ExtraMetrics:
    """The suite's measurements beyond the core, and what shadow models say."""
    found = []
    roles = _oracle_roles(inputs)
    for name in resolved.suite.measurements:
        measurement = find_measurement(name)
        references = References(
            original=inputs[f"measured {name} of original"],
            oracles=[inputs[f"measured {name} of {role}"] for role in roles[: measurement.oracles or None]],
            untrained=inputs[f"measured {name} of untrained"] if measurement.untrained else None,
            row=resolved.entry.name,
        )
        found.append((measurement, inputs[f"measured {name} of row"], references))
    extra = compare_measurements(found, len(roles))
    if "shadows" not in inputs:
        return extra
    return ExtraMetrics((*extra.values, *inputs["shadows"]), extra.oracles, extra.tables)


def _stream_metrics(resolved: ResolvedRequest, inputs: Inputs, prepared: PreparedTask, cost: Cost) -> StreamMetrics:
    count = resolved.request.requests
    stream = divided(prepared, inputs, count)
    own, before = inputs["scores of row"], inputs["scores of original"]
    if "step 1" not in inputs:
        seconds = [0.0] * (count - 1) + [cost.unlearn_seconds]
        return stream_metrics(stream, [own] * count, seconds, before=before, cost=cost, fixed=True)
    steps = [inputs.stored(f"step {number}") for number in range(1, count + 1)]
    notes: list[Mapping[str, object]] = [read_notes(step.path) for step in steps]
    seconds = request_seconds([step.facts for step in steps], notes)
    scores = [inputs[f"scores of step {number}"] for number in range(1, count)]
    return stream_metrics(stream, [*scores, own], seconds, before=before, cost=cost, fixed=False)


def _check(metrics: tuple[MetricValue, ...]) -> None:
    faults = check_invariants(metrics)
    if faults:
        listing = "".join(f"\n  - {fault}" for fault in faults[:10])
        raise BenchError(
            f"the result breaks {len(faults)} invariants and was not written:{listing}",
            hint="this is a fault of the suite: please report it with the command and the output of `bench doctor`",
        )


def _cost_metrics(cost: Cost) -> tuple[MetricValue, ...]:
    return cost_values(
        unlearn_seconds=cost.unlearn_seconds,
        share_of_retraining=cost.share_of_retraining,
        peak_memory_mib=cost.peak_memory_mib,
        steps=cost.steps,
        tuning_trials=cost.tuning_trials,
    )
