"""Building the record of a run: what was run, from what, where, at what cost, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench import PROTOCOL_VERSION, __version__
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.environment import arithmetic, describe, version_mismatches
from genrec_unlearn_bench.pipeline.record import Cost, RunRecord, StageRef
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, cell_of
from genrec_unlearn_bench.pipeline.stage import Stage, topological
from genrec_unlearn_bench.pipeline.stage_log import read_notes
from genrec_unlearn_bench.registry import source_digest

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.pipeline.context import Inputs, StageContext
    from genrec_unlearn_bench.pipeline.stages.data import PreparedTask
    from genrec_unlearn_bench.pipeline.stages.evaluate import Scores

__all__ = ["Outcome", "build_record", "cost_of"]

FREE_ROWS = ("original", "popularity", "sasrec")
"""Rows that forget nothing, so that they cost nothing; the retrained rows cost their training."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What was measured, and at what cost.

    Attributes:
        tables: Tables of measurements as they are written, by name.
    """

    metrics: tuple[MetricValue, ...]
    cost: Cost
    tables: Mapping[str, bytes]


def cost_of(resolved: ResolvedRequest, inputs: Inputs) -> Cost:
    """What the row cost by itself, and what the choice of its configuration cost before."""
    retrain = float(inputs.stored("retrain").facts["seconds"]) if "retrain" in inputs else None
    row, choice = inputs.stored("row"), resolved.source.choice
    free = resolved.entry.name in FREE_ROWS
    seconds = 0.0 if free else float(row.facts["seconds"])
    return Cost(
        unlearn_seconds=seconds,
        retrain_seconds=retrain,
        share_of_retraining=seconds / retrain if retrain else None,
        peak_memory_mib=0.0 if free else float(row.facts["peak_memory_mib"]),
        steps=0 if free else _steps(read_notes(row.path)),
        tuning_trials=len(choice.trials) if choice is not None else 0,
        tuning_seconds=choice.seconds if choice is not None else 0.0,
    )


def _steps(notes: Mapping[str, Any]) -> int:
    """Optimiser steps. A method reports every one of them; a training reports some, and notes how many there were."""
    return int(notes["notes"].get("train.steps", notes["steps"]))


def build_record(
    resolved: ResolvedRequest,
    result: Stage,
    context: StageContext,
    inputs: Inputs,
    prepared: PreparedTask,
    found: Outcome,
) -> RunRecord:
    """The record of one run.

    Args:
        result: The stage ``result``, whose key the record takes.
        inputs: Its inputs.
    """
    scores: Scores = inputs["scores of row"]
    notes = read_notes(inputs.stored("row").path)
    return RunRecord(
        protocol_version=PROTOCOL_VERSION,
        suite_version=__version__,
        key=result.key,
        cell=cell_of(resolved),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        dataset_digest=prepared.dataset.manifest.digest,
        task_digest=prepared.split.manifest.digest,
        method_digest=source_digest(resolved.entry),
        method_config=resolved.method_config.model_dump(mode="json"),
        backbone_label=resolved.backbone.label(resolved.backbone_config, resolved.sid_config),
        backbone_config=resolved.backbone_config.model_dump(mode="json"),
        sid_config=resolved.sid_config.model_dump(mode="json"),
        encoder=resolved.encoder.key,
        effective_batch_size=_batch_size(resolved),
        stages=tuple(_stage_refs(result, context)),
        environment=describe(resolved.device, threads=resolved.threads),
        arithmetic=arithmetic(),
        off_lock={one.package: one.locked for one in version_mismatches()},
        cost=found.cost,
        diverged=bool(notes["diverged"]) or not scores.measured,
        metrics=found.metrics,
        measuring={name: config.model_dump(mode="json") for name, config in resolved.measuring.items()},
        holdout=prepared.holdout.digest if prepared.holdout is not None else "",
        tables={name: hashlib.blake2b(table, digest_size=32).hexdigest() for name, table in found.tables.items()},
        report=notes["notes"],
        per_user_digest=file_digest(scores.per_user) if scores.per_user is not None else "",
        command=resolved.request.command(),
        notes=tuple(_notes(resolved, prepared, scores)),
    )


def _stage_refs(result: Stage, context: StageContext) -> Iterable[StageRef]:
    """Every stage the result was built from, once, upstream first.

    What only served a stage that was there may be gone from the store: then it is not named.
    """
    # A reference row is also a reference of itself; its evaluation is then the row's.
    titles = {result.inputs["scores of row"].key: "evaluation"}
    for stage in topological([result]):
        if stage is result:
            continue
        stored = context.cache.stages.get(stage.key)
        manifest = context.store.manifest(stage.name, stage.key) if stored is None else None
        title = titles.get(stage.key, stage.title)
        if stored is not None:
            cached = stage.key not in context.made
            yield StageRef(name=title, key=stage.key, digest=stored.digest, seconds=stored.seconds, cached=cached)
        elif manifest is not None:
            yield StageRef(name=title, key=stage.key, digest=manifest.digest, seconds=manifest.seconds, cached=True)


def _batch_size(resolved: ResolvedRequest) -> int:
    """Examples per optimiser step of whatever made the row, over all processes; 0 where nothing is trained so."""
    training: Any = getattr(resolved.backbone_config, "training", resolved.backbone_config)
    for config in (resolved.method_config, training):
        size = getattr(config, "batch_size", None)
        if size is not None:
            return int(size)
    return 0


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
    if not scores.measured:
        yield "not evaluated: the weights are not finite"
    if prepared.holdout is not None:
        yield (
            f"{len(prepared.holdout.pairs)} (user, item) pairs of the train part were never trained on, for membership "
            "inference: not comparable with runs of the suite core"
        )
    yield from prepared.dataset.manifest.notes
