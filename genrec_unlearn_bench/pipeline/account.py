"""Puts a run's record together: what was run, from what, where, at what cost, and what came of it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench import PROTOCOL_VERSION, __version__
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.environment import arithmetic, describe
from genrec_unlearn_bench.pipeline.lock import off_lock
from genrec_unlearn_bench.pipeline.record import Cell, Cost, RunRecord, StageRef
from genrec_unlearn_bench.pipeline.stage_log import read_notes
from genrec_unlearn_bench.registry import Entry, source_digest
from genrec_unlearn_bench.store.keys import content_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.pipeline.ground import Ground
    from genrec_unlearn_bench.pipeline.scored import Scores
    from genrec_unlearn_bench.pipeline.setting import Setting
    from genrec_unlearn_bench.pipeline.trained import Trained
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.store import StoredStage
    from genrec_unlearn_bench.tuning.choice import Choice

__all__ = ["assemble", "cell_of", "cost_of", "result_key"]


def cost_of(entry: Entry, row: Trained, oracle: Trained | None, choice: Choice | None = None) -> Cost:
    """What the row cost by itself, and what the choice of its configuration cost before.

    The original, popularity and SASRec forget nothing, so they cost nothing; the retrained rows cost their training.
    """
    retrain = oracle.seconds if oracle is not None else None
    free = entry.name in ("original", "popularity", "sasrec")
    seconds = 0.0 if free else row.seconds
    return Cost(
        unlearn_seconds=seconds,
        retrain_seconds=retrain,
        share_of_retraining=seconds / retrain if retrain else None,
        peak_memory_mib=0.0 if free else row.peak_memory_mib,
        steps=0 if free else _steps(row.stage.path),
        tuning_trials=len(choice.trials) if choice is not None else 0,
        tuning_seconds=choice.seconds if choice is not None else 0.0,
    )


def _steps(stage: Path) -> int:
    """Optimiser steps. A method reports every one of them; a training reports some, and notes how many there were."""
    told = read_notes(stage)
    return int(told["notes"].get("train.steps", told["steps"]))


def assemble(
    room: Workroom,
    ground: Ground,
    row: Trained,
    scores: Scores,
    oracles: Sequence[tuple[Trained, Scores]],
    *,
    key: str,
    cost: Cost,
    metrics: tuple[MetricValue, ...],
    beyond: Sequence[tuple[str, StoredStage]],
    tables: Mapping[str, bytes],
) -> RunRecord:
    """The record of one run. ``key``: ``result_key``; ``tables``: of measurements, as they are written."""
    setting = room.setting
    request = setting.request
    told = read_notes(row.stage.path)
    return RunRecord(
        protocol_version=PROTOCOL_VERSION,
        suite_version=__version__,
        key=key,
        cell=cell_of(setting),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        dataset_digest=ground.dataset.manifest.digest,
        task_digest=ground.split.manifest.digest,
        method_digest=source_digest(setting.entry),
        method_config=setting.method_config.model_dump(mode="json"),
        backbone_label=setting.backbone.label(setting.backbone_config, setting.sid_config),
        backbone_config=setting.backbone_config.model_dump(mode="json"),
        sid_config=setting.sid_config.model_dump(mode="json"),
        encoder=ground.features.encoder,
        effective_batch_size=_batch_size(setting),
        stages=tuple(_references(ground, row, scores, oracles, beyond)),
        environment=describe(setting.device, threads=setting.threads),
        arithmetic=arithmetic(),
        off_lock={found.package: found.locked for found in off_lock()},
        cost=cost,
        diverged=bool(told["diverged"]),
        metrics=metrics,
        measuring={name: config.model_dump(mode="json") for name, config in setting.measuring.items()},
        holdout=ground.holdout.digest if ground.holdout is not None else "",
        tables={name: hashlib.blake2b(table, digest_size=32).hexdigest() for name, table in tables.items()},
        report=told["notes"],
        per_user_digest=file_digest(scores.per_user) if scores.per_user is not None else "",
        command=request.command(),
        notes=tuple(_notes(setting, ground, scores)),
    )


def cell_of(setting: Setting) -> Cell:
    """The cell that a setting is."""
    return Cell(
        task=setting.task.name,
        backbone=setting.backbone.name,
        method=setting.entry.name,
        seed=setting.seed,
        scale=setting.scale.value,
        suite=setting.request.suite,
        ruleset=setting.ruling.name,
        requests=setting.request.requests,
    )


def result_key(
    cell: Cell, *, evaluation: StoredStage, oracles: Sequence[StoredStage], beyond: Sequence[StoredStage] = ()
) -> str:
    """The key of a result. Two rows may share an evaluation (the oracle is its own reference) and still be two results;
    so may two rulesets that came to the same configuration.

    Args:
        evaluation: Of the row.
        oracles: Evaluations of the oracles that it is held against.
        beyond: What the suite measured beyond the core, on every model.
    """
    return content_key(
        "result",
        {
            "row": cell.method,
            **({"ruleset": cell.ruleset} if cell.ruleset != "default" else {}),
            **({"requests": cell.requests} if cell.requests > 1 else {}),
            **({"beyond": [stage.identity for stage in beyond]} if beyond else {}),
            "evaluation": evaluation.digest,
            "evaluation_key": evaluation.identity,
            "oracles": [oracle.digest for oracle in oracles],
        },
    )


def _references(
    ground: Ground,
    row: Trained,
    scores: Scores,
    oracles: Sequence[tuple[Trained, Scores]],
    beyond: Sequence[tuple[str, StoredStage]],
) -> Iterable[StageRef]:
    """Every stage the result was built from, once, upstream first."""
    named = [(stage.name, stage) for stage in (*ground.stages, *row.upstream, row.stage)]
    for number, (trained, measured) in enumerate(oracles):
        suffix = f" {number}" if number else ""
        named += [(f"{trained.stage.name}{suffix}", trained.stage), (f"evaluation of retrain{suffix}", measured.stage)]
    named.append(("evaluation", scores.stage))
    named += beyond
    distinct = {stage.key: (name, stage) for name, stage in named}
    for name, stage in distinct.values():
        yield StageRef(name=name, key=stage.key, digest=stage.digest, seconds=stage.seconds, cached=stage.cached)


def _batch_size(setting: Setting) -> int:
    """Examples per optimiser step of whatever made the row, over all processes; 0 where nothing is trained so."""
    training: Any = getattr(setting.backbone_config, "training", setting.backbone_config)
    for config in (setting.method_config, training):
        size = getattr(config, "batch_size", None)
        if size is not None:
            return int(size)
    return 0


def _notes(setting: Setting, ground: Ground, scores: Scores) -> Iterable[str]:
    manifest = ground.split.manifest
    if setting.ruling.note:
        yield setting.ruling.note
    if setting.request.requests > 1 and setting.ruling.choice is not None:
        yield "tuned on the forget set as one request"
    if not manifest.within_tolerance:
        yield (
            f"no draw of the concept met the target share; the nearest was taken ({manifest.train_share:.1%} of the "
            "train targets)"
        )
    if not scores.measured:
        yield "not evaluated: the weights are not finite"
    if ground.holdout is not None:
        yield (
            f"{len(ground.holdout.pairs)} (user, item) pairs of the train part were never trained on, for membership "
            "inference: not comparable with runs of the suite core"
        )
    yield from ground.dataset.manifest.notes
