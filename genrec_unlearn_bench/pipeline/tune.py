"""Tunes one method on one task and recommender: every trial unlearns at the tuning seeds and is measured on validation.

Trials are stages like those of runs, so an interrupted tuning goes on where it stopped. No oracle is trained, and the
test part is not touched.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from genrec_unlearn_bench import PROTOCOL_VERSION, __version__
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact, DataFault, UsageError
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.graph import recommender_stages
from genrec_unlearn_bench.pipeline.request import TUNING_SEED, RunRequest
from genrec_unlearn_bench.pipeline.resolve import Catalogue, ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.stage import SessionCache, Stage, StageContext, materialise, read_notes
from genrec_unlearn_bench.pipeline.stages.evaluate import validate_stage
from genrec_unlearn_bench.pipeline.stages.unlearn import unlearn_stage
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import source_digest
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.tuning.choice import Choice, recommender_digest
from genrec_unlearn_bench.tuning.rule import TRIALS, Measured, Trial, choose, mean_trial
from genrec_unlearn_bench.tuning.space import SearchSpace, search_space
from genrec_unlearn_bench.unlearning.method import MethodConfig


class Tuned(NamedTuple):
    """A choice, and its fields that differ from the method's (or variant's) defaults."""

    choice: Choice
    changes: dict[str, Any]


class _Start(NamedTuple):
    """Start of the trials of one seed: the original, and its scores on the validation parts."""

    data: Mapping[str, Stage]
    sids: Stage
    original: Stage
    measured: Measured


def tune(
    run: RunRequest,
    store: StageStore,
    progress: Progress | None = None,
    *,
    seeds: Sequence[int] = (TUNING_SEED,),
    limit: int = TRIALS,
    cache: SessionCache | None = None,
) -> Tuned:
    """Try at most ``limit`` configurations of a run's method and choose one by the rule, by means over the ``seeds``.

    Fields of the method that the run sets are not searched; finished trials are kept if one fails. Raises UsageError
    for a request that is wrong, BenchError where data, storage or a trial failed or all diverged.
    """
    progress, catalogue = progress or Progress(), Catalogue()
    resolved = resolve(run, catalogue=catalogue)
    entry = resolved.entry
    if resolved.method is None:
        what = f"{entry.name!r} is a reference row, there is nothing to tune"
        raise UsageError(what, hint="--method tracer, for example (bench ls methods)")
    space = search_space(type(resolved.method), entry.name, entry.fields, resolved.request.method_set)
    configs = space.trials(limit)
    runs = [run.model_copy(update={"seed": seed}) for seed in seeds]
    # A configuration that the backbone cannot serve shows before the first minute is spent.
    trials = [
        [resolve(one.model_copy(update={"method_set": config.model_dump()}), catalogue=catalogue) for one in runs]
        for config in configs
    ]
    context = StageContext(store, progress, cache or SessionCache(), resolved.device)
    with determinism(resolved.threads):
        starts = [_start(resolve(one, catalogue=catalogue), context) for one in runs]
        found = []
        for number, (config, cells) in enumerate(zip(configs, trials, strict=True), start=1):
            changes = ", ".join(f"{name}={value}" for name, value in _changes(config, resolved.method_config).items())
            progress.info(f"trial {number}/{len(configs)}: {changes or 'the default'}")
            found.append(_try(config, cells, starts, context))
        manifest = context.load(starts[0].data["task"]).manifest
    words = resolved.request.arguments("tune", "backbone", "scale", "data_dir", "sids", "encoder", "device", "threads")
    words += [word for seed in seeds for word in ("--seed", str(seed))]
    command = shlex.join([*words, "--trials", str(limit)])
    return _tuned(resolved, [start.measured for start in starts], found, space, manifest, command)


def _start(resolved: ResolvedRequest, context: StageContext) -> _Start:
    data, sids, original, _ = recommender_stages(resolved, context.progress)
    split = context.load(data["task"])
    for part, examples in (("forget", split.valid.forget), ("retain", split.valid.retain)):
        if not len(examples):
            raise DataFault(
                f"the {part} side of the validation part is empty, so there is nothing to tune by",
                where=resolved.task.name,
                hint="use a task with validation examples on both sides, or run with --ruleset default or fixed",
            )
    scores = context.load(validate_stage(resolved, data, original, sids))
    if scores["not_finite"]:
        raise CorruptArtefact(
            f"the original recommender's weights are not finite: {scores['not_finite']}",
            where=str(context.stored(original).path),
            hint="its training diverged: lower its learning rate (--set-backbone training.lr=…)",
        )
    return _Start(data, sids, original, _measured(resolved.seed, scores))


def _measured(seed: int, scores: Mapping[str, Any], **fields: Any) -> Measured:
    names = ("forget_hr", "retain_ndcg", "exposed_hr", "near_ndcg", "forget_hits", "exposed_hits")
    fields |= {name: scores.get(name) for name in names}
    return Measured(seed=seed, validate_seconds=scores.get("seconds", 0.0), **fields)


def _try(
    config: MethodConfig, cells: Sequence[ResolvedRequest], starts: Sequence[_Start], context: StageContext
) -> Trial:
    """One configuration at all seeds, or up to the first at which it diverges."""
    seeds: list[Measured] = []
    for resolved, start in zip(cells, starts, strict=True):
        row = unlearn_stage(resolved, start.data, start.sids, start.original)
        stored = materialise(row, context)
        diverged = bool(read_notes(stored.path)["diverged"])
        scores = {} if diverged else context.load(validate_stage(resolved, start.data, row, start.sids))
        diverged = diverged or bool(scores["not_finite"])
        seconds = float(stored.facts["seconds"])
        seeds.append(_measured(resolved.seed, scores, unlearn_seconds=seconds, diverged=diverged))
        if diverged:
            break
    return mean_trial(config.model_dump(mode="json"), seeds)


def _tuned(
    resolved: ResolvedRequest,
    originals: Sequence[Measured],
    trials: Sequence[Trial],
    space: SearchSpace,
    manifest: TaskManifest,
    command: str,
) -> Tuned:
    entry = resolved.entry
    before = mean_trial({}, originals)
    if (chosen := choose(trials, before)) is None:
        what = f"every configuration of {entry.name!r} diverged ({len(trials)} tried), so there is none to choose"
        raise BenchError(what, hint="hold a smaller learning rate: --set lr=1e-6")
    choice = Choice(
        protocol_version=PROTOCOL_VERSION,
        suite_version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        task=resolved.task.name,
        dataset_digest=manifest.dataset_digest,
        task_digest=manifest.digest,
        backbone=resolved.backbone.name,
        backbone_digest=recommender_digest(resolved.backbone_config, resolved.sid_config),
        scale=resolved.scale.value,
        encoder=resolved.encoder.key,
        device=resolved.hardware["device"],
        method=entry.name,
        method_digest=source_digest(entry),
        seeds=tuple(one.seed for one in originals),
        searched=tuple(space.values),
        space=space.size,
        original=before,
        trials=tuple(trials),
        chosen=chosen[0],
        feasible=chosen[1],
        seconds=sum(trial.seconds for trial in trials),
        command=command,
    )
    config = type(resolved.method_config)
    defaults = config.model_validate(dict(entry.fields))
    return Tuned(choice, _changes(config.model_validate(choice.config), defaults))


def _changes(config: MethodConfig, default: MethodConfig) -> dict[str, Any]:
    one, other = config.model_dump(mode="json"), default.model_dump(mode="json")
    return {name: value for name, value in one.items() if value != other[name]}
