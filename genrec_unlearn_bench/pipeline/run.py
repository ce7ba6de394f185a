"""Running a cell: its stages in one loop, then its record, written to the results folder; and SID health alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from genrec_unlearn_bench import PROTOCOL_VERSION, __version__
from genrec_unlearn_bench.backbones.config import BackboneConfig, SasRecConfig
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.collateral import change_from_original
from genrec_unlearn_bench.evaluation.gap import cost_values, gap_to_oracle
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.measurement import ExtraMetrics, References, compare_measurements
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline import results
from genrec_unlearn_bench.pipeline.environment import arithmetic, describe, determinism, version_mismatches
from genrec_unlearn_bench.pipeline.graph import build_result, recommender_stages
from genrec_unlearn_bench.pipeline.record import Cost, RunRecord, StageRef
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ConfigSource, ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.stage import Inputs, SessionCache, StageContext, materialise, read_notes, topological
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.pipeline.stages.evaluate import SASREC, Scores
from genrec_unlearn_bench.pipeline.stages.stream import divide, stream_metrics
from genrec_unlearn_bench.pipeline.stages.train import TrainingStages
from genrec_unlearn_bench.pipeline.stages.unlearn import SKIPPED
from genrec_unlearn_bench.progress import ENDED_EARLY, Progress, process_index
from genrec_unlearn_bench.sids.health import SidHealth, health
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.tuning.choice import check_task


def run_cell(
    request: RunRequest,
    store: StageStore,
    progress: Progress | None = None,
    *,
    cache: SessionCache | None = None,
    source: ConfigSource | None = None,
) -> results.FinishedRun:
    """Run one cell and write its result, or read the one that is there; finished stages are kept if the run fails.

    ``source`` of the method's configuration is the request's ruleset, if it is not given (a record's own).
    """
    resolved = resolve(request, source=source)
    done = run_resolved(resolved, StageContext(store, progress or Progress(), cache or SessionCache(), resolved.device))
    if source is None and process_index() == 0:
        results.remember_finished(request, store, done)
    return done


def sid_health(request: RunRequest, store: StageStore, progress: Progress, *, served: bool = False) -> SidHealth:
    """Health of the semantic IDs of a request's task, made if they are not in the store.

    ``served``: of those that the original serves with, others where the backbone trains its tokenizer (ETEGRec).
    """
    resolved = resolve(request)
    context = StageContext(store, progress, device=resolved.device)
    data, sids, _, _ = recommender_stages(resolved, progress)
    if not served:
        sids = TrainingStages(resolved, data).sids()
    with determinism(resolved.threads):
        table = context.load(sids)
        items, split = context.load(data["dataset"]).items, context.load(data["task"])
    categories = [path[-1] if path else "" for path in items.categories]
    return health(table, items_by_concept=split.items, brands=items.brands, categories=categories)


def run_resolved(resolved: ResolvedRequest, context: StageContext) -> results.FinishedRun:
    """Run a cell that is resolved already: its stages in one loop, then its record."""
    result = build_result(resolved, progress=context.progress)
    folder = results.result_folder(resolved.request.results_dir, resolved.cell, result.key)
    done = results.finished_run(folder, result.key)
    if done is not None:
        context.progress.info(f"result: from {done.folder}")
        return done
    inputs = Inputs(result, context)
    with determinism(resolved.threads):
        # Refused before any training: a choice for a task that changed, and more requests than can be made of it.
        if resolved.source.choice is not None:
            check_task(resolved.source.choice, inputs["task"].manifest.digest, path=Path(resolved.source.where))
        if resolved.request.requests > 1:
            prepared = prepare_task(inputs, resolved)
            divide(prepared.split, prepared.dataset.items, resolved.request.requests)
        for stage in result.inputs.values():
            materialise(stage, context)
        return _conclude(resolved, inputs)


def _conclude(resolved: ResolvedRequest, inputs: Inputs) -> results.FinishedRun:
    prepared = prepare_task(inputs, resolved)
    cost = cost_of(resolved, inputs)
    own: Scores = inputs["scores of row"]
    extra = _extra_metrics(resolved, inputs) if own.per_user else ExtraMetrics()
    metrics = _metrics(own, inputs, extra) if own.per_user else ()
    stream = _stream_metrics(resolved, inputs, prepared, cost) if resolved.request.requests > 1 else ExtraMetrics()
    metrics = (*metrics, *cost_values(**cost.model_dump(exclude={"retrain_seconds", "tuning_seconds"})), *stream.values)
    if faults := check_invariants(metrics):
        listing = "".join(f"\n  - {fault}" for fault in faults)
        raise BenchError(
            f"the result breaks invariants and was not written:{listing}",
            hint="this is a fault of the suite: please report it with the command and the output of `bench doctor`",
        )
    found = {**extra.tables, **stream.tables}
    tables = {name: table.to_csv(index=False, lineterminator="\n").encode("utf-8") for name, table in found.items()}
    record = build_record(resolved, inputs, prepared, metrics=metrics, cost=cost, tables=tables)
    root = resolved.request.results_dir
    if process_index() == 0:
        losses = inputs.stored("row").path / results.LOSSES
        results.write_result(root, record, prepared.split.manifest, per_user=own.per_user, losses=losses, tables=tables)
    return results.FinishedRun(record, results.result_folder(root, record.cell, record.key))


def _oracle_roles(inputs: Inputs) -> list[str]:
    return [role for role in inputs.stage.inputs if role.partition(" ")[0] == "retrain"]


def _metrics(own: Scores, inputs: Inputs, extra: ExtraMetrics) -> tuple[MetricValue, ...]:
    before, oracles = inputs["scores of original"], [inputs[f"scores of {role}"] for role in _oracle_roles(inputs)]
    values = (*own.values, *extra.values)
    further = extra.oracles or [()] * len(oracles)
    both = own.per_user, before.per_user
    tables = (read_per_user(both[0]), read_per_user(both[1])) if both[0] and both[1] else None
    return (
        *values,
        *change_from_original(own.values, before.values, tables=tables),
        *gap_to_oracle(values, [(*scores.values, *more) for scores, more in zip(oracles, further, strict=True)]),
    )


def _extra_metrics(resolved: ResolvedRequest, inputs: Inputs) -> ExtraMetrics:
    found, roles = [], _oracle_roles(inputs)
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


def _stream_metrics(resolved: ResolvedRequest, inputs: Inputs, prepared: PreparedTask, cost: Cost) -> ExtraMetrics:
    count = resolved.request.requests
    stream = divide(prepared.split, prepared.dataset.items, count)
    own, before = inputs["scores of row"], inputs["scores of original"]
    if "step 1" not in inputs:
        seconds = [0.0] * (count - 1) + [cost.unlearn_seconds]
        return stream_metrics(stream, [own] * count, seconds, before=before, cost=cost, fixed=True)
    steps = [inputs.stored(f"step {number}") for number in range(1, count + 1)]
    seconds = [float(one.facts["seconds"]) for one in steps if SKIPPED not in read_notes(one.path)["notes"]]
    scores = [inputs[f"scores of step {number}"] for number in range(1, count)]
    return stream_metrics(stream, [*scores, own], seconds, before=before, cost=cost, fixed=False)


EARLY = "max_hours ended the training of {} {}: its weights depend on the machine's speed"

FREE_ROWS = ("original", "popularity", "sasrec")
"""Rows that forget nothing, so that they cost nothing; the retrained rows cost their training."""


def cost_of(resolved: ResolvedRequest, inputs: Inputs) -> Cost:
    retrain = float(inputs.stored("retrain").facts["seconds"]) if "retrain" in inputs else None
    row, choice = inputs.stored("row"), resolved.source.choice
    free, notes = resolved.entry.name in FREE_ROWS, read_notes(row.path)
    seconds = 0.0 if free else float(row.facts["seconds"])
    return Cost(
        unlearn_seconds=seconds,
        retrain_seconds=retrain,
        share_of_retraining=seconds / retrain if retrain else None,
        peak_memory_mib=0.0 if free else float(row.facts["peak_memory_mib"]),
        # A method reports every optimiser step; a training reports some, and notes their number.
        steps=0 if free else int(notes["notes"].get("train.steps", notes["steps"])),
        tuning_trials=len(choice.trials) if choice is not None else 0,
        tuning_seconds=choice.seconds if choice is not None else 0.0,
    )


def build_record(
    resolved: ResolvedRequest,
    inputs: Inputs,
    prepared: PreparedTask,
    *,
    metrics: tuple[MetricValue, ...],
    cost: Cost,
    tables: Mapping[str, bytes],
) -> RunRecord:
    """The record of one run, from the inputs of its stage ``result``."""
    scores: Scores = inputs["scores of row"]
    notes = read_notes(inputs.stored("row").path)
    ended_early = dict(_ended_early(inputs))
    return RunRecord(
        protocol_version=PROTOCOL_VERSION,
        suite_version=__version__,
        key=inputs.stage.key,
        cell=resolved.cell,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        dataset_digest=prepared.dataset.manifest.digest,
        task_digest=prepared.split.manifest.digest,
        method_digest=resolved.method_digest,
        method_config=resolved.method_config.model_dump(mode="json"),
        backbone_label=resolved.backbone.label(resolved.backbone_config, resolved.sid_config),
        backbone_config=resolved.backbone_config.model_dump(mode="json"),
        sid_config=resolved.sid_config.model_dump(mode="json"),
        encoder=resolved.encoder.key,
        effective_batch_size=_batch_size(resolved),
        original_over_sasrec=_original_over_sasrec(inputs),
        stages=tuple(_stage_refs(inputs)),
        environment=describe(resolved.device, threads=resolved.threads),
        arithmetic=arithmetic(),
        off_lock={package: locked for package, (_, locked) in version_mismatches().items()},
        cost=cost,
        diverged=bool(notes["diverged"]) or scores.per_user is None,
        ended_early=ended_early,
        metrics=metrics,
        measuring={name: config.model_dump(mode="json") for name, config in resolved.measuring.items()},
        holdout=prepared.holdout.digest if prepared.holdout is not None else "",
        tables={name: hashlib.blake2b(table, digest_size=32).hexdigest() for name, table in tables.items()},
        report=notes["notes"],
        per_user_digest=file_digest(scores.per_user) if scores.per_user is not None else "",
        command=resolved.request.command(),
        notes=(*_notes(resolved, prepared, scores), *(EARLY.format(*each) for each in ended_early.items())),
    )


def _original_over_sasrec(inputs: Inputs) -> float | None:
    """None without SASRec, and where one of the two was not measured or found nothing."""
    if SASREC not in inputs or not (best := inputs[SASREC]):
        return None
    wanted = ("ndcg@10", Group.RETAIN, 10)
    found = (one.value for one in inputs["scores of original"].values if (one.metric, one.group, one.beam) == wanted)
    return None if (own := next(found, None)) is None else own / best


def _ended_early(inputs: Inputs) -> Iterable[tuple[str, str]]:
    """The trainings that ``max_hours`` ended, and how far they were."""
    for stage in topological(inputs.stage.inputs.values()):
        config = stage.config.get("config")
        if isinstance(config, BackboneConfig | SasRecConfig) and config.max_hours is not None:
            found = inputs.context.find(stage)
            notes = read_notes(found.path)["notes"] if found else {ENDED_EARLY: "unknown: it is gone from the store"}
            if far := [text for name, text in notes.items() if name.endswith(ENDED_EARLY)]:
                yield stage.title, ", ".join(far)


def _stage_refs(inputs: Inputs) -> Iterable[StageRef]:
    """Every stage the result was built from, once, upstream first.

    An input of a stage that was there may be gone from the store; it is left out then.
    """
    result, context = inputs.stage, inputs.context
    # A reference row is also a reference of itself; its evaluation is then the row's.
    titles = {result.inputs["scores of row"].key: "evaluation"}
    for stage in topological(result.inputs.values()):
        found = context.cache.stages.get(stage.key) or context.store.manifest(stage.name, stage.key)
        if found is not None:
            yield StageRef(
                name=titles.get(stage.key, stage.title),
                key=stage.key,
                digest=found.digest,
                seconds=found.seconds,
                cached=stage.key not in context.made,
            )


def _batch_size(resolved: ResolvedRequest) -> int:
    """Examples per optimiser step of whatever made the row, over all processes; 0 where nothing is trained so."""
    training: Any = getattr(resolved.backbone_config, "training", resolved.backbone_config)
    sizes = [getattr(config, "batch_size", None) for config in (resolved.method_config, training)]
    return next((int(size) for size in sizes if size is not None), 0)


def _notes(resolved: ResolvedRequest, prepared: PreparedTask, scores: Scores) -> Iterable[str]:
    manifest = prepared.split.manifest
    if resolved.source.note:
        yield resolved.source.note
    if resolved.request.requests > 1 and resolved.source.choice is not None:
        yield "tuned on the forget set as one request"
    if not manifest.within_tolerance:
        yield (
            f"no draw of the concept met the target share; the nearest was taken ({manifest.train_share:.1%} of the "
            "train targets)"
        )
    if scores.per_user is None:
        yield "not evaluated: the weights are not finite"
    if prepared.holdout is not None:
        yield (
            f"{len(prepared.holdout.pairs)} (user, item) pairs of the train part were never trained on, for membership "
            "inference: not comparable with runs of the suite core"
        )
    yield from prepared.dataset.manifest.notes
