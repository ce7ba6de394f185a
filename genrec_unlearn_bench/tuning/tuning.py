"""Tunes one method on one task and recommender: every trial unlearns at the tuning seeds and is measured on validation.

Trials are the stages of ordinary runs, so an interrupted tuning goes on where it stopped, and a run at a tuning seed
would share them. No oracle is trained, and the test part is not touched.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import Field

from genrec_unlearn_bench import PROTOCOL_VERSION, __version__
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact, DataFault, UsageError
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.ground import Ground, lay_ground
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.setting import Setting, settle
from genrec_unlearn_bench.pipeline.stage_log import read_notes
from genrec_unlearn_bench.pipeline.trained import Tokens, Trained, deployed, original, tokens
from genrec_unlearn_bench.pipeline.unlearned import unlearned
from genrec_unlearn_bench.pipeline.validated import validated
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.tuning.choice import Choice, method_digest, recommender_digest
from genrec_unlearn_bench.tuning.search_space import configurations, search_space
from genrec_unlearn_bench.tuning.selection import Measured, Trial, choose, mean_trial

if TYPE_CHECKING:
    from genrec_unlearn_bench.unlearning.method import MethodConfig

__all__ = ["TRIALS", "TUNING_SEED", "Tuned", "TuningRequest", "tune"]

TRIALS = 12
"""The most configurations that the protocol allows."""

TUNING_SEED = 9000
"""Far from the seeds that are reported (0 … 4) and from those of their oracles (1000 steps)."""


class TuningRequest(StrictModel):
    """One method to tune."""

    run: RunRequest
    """Task, method, backbone, scale and the rest; fields of the method that are set there are not searched."""
    seeds: tuple[int, ...] = Field(default=(TUNING_SEED,), min_length=1)
    """Seeds to tune at; the rule takes means over them."""
    trials: int = Field(default=TRIALS, ge=1, le=TRIALS)
    """How many configurations may be tried."""

    def command(self, *, scale: str) -> str:
        """The command line that repeats this tuning."""
        run = self.run.model_copy(update={"scale": scale})
        words = run.words("tune", "backbone", "scale", "data_dir", "encoder", "device", "threads")
        for seed in self.seeds:
            words += ["--seed", str(seed)]
        return shlex.join([*words, "--trials", str(self.trials)])


@dataclass(frozen=True)
class Tuned:
    """A choice, and in which fields it differs from the method's (or variant's) defaults."""

    choice: Choice
    changes: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class _Bench:
    """What the trials of one seed start from."""

    setting: Setting
    ground: Ground
    sids: Tokens
    before: Trained
    measured: Measured


def tune(
    request: TuningRequest, store: StageStore, progress: Progress | None = None, *, shelf: Shelf | None = None
) -> Tuned:
    """Try the configurations of a method and choose one by the rule.

    Raises:
        UsageError: The request itself is wrong; nothing was done.
        BenchError: Data, storage or a trial failed, or every trial diverged; finished trials are kept.
    """
    progress, shelf = progress or Progress(), shelf or Shelf()
    setting = settle(request.run)
    configs, space = _configurations(setting, request.trials)
    for config in configs:
        # A configuration that the backbone cannot serve shows before the first minute is spent.
        settle(_trial(request.run, config, request.seeds[0]))
    code_digests([__name__, setting.backbone.__module__])
    with determinism(setting.threads):
        benches = [_bench(request.run, seed, store, progress, shelf) for seed in request.seeds]
        trials = []
        for number, config in enumerate(configs, start=1):
            progress.info(f"trial {number}/{len(configs)}{_told(config, setting.method_config)}")
            trials.append(_try(request, config, benches, store, progress, shelf))
    return _tuned(request, setting, benches, trials, space)


def _configurations(setting: Setting, limit: int) -> tuple[tuple[MethodConfig, ...], int]:
    """What is tried, and how many there are to be tried."""
    if setting.method is None:
        raise UsageError(
            f"{setting.entry.name!r} is a reference row, there is nothing to tune",
            hint="--method tracer, for example (bench ls methods)",
        )
    fixed = {**setting.entry.fields, **setting.request.method_set}
    config, name = type(setting.method_config), setting.entry.name
    everything = configurations(config, fixed, name=name, limit=1 << 62)
    return configurations(config, fixed, name=name, limit=limit), len(everything)


def _trial(run: RunRequest, config: MethodConfig, seed: int) -> RunRequest:
    return run.model_copy(update={"method_set": config.model_dump(), "seed": seed})


def _bench(run: RunRequest, seed: int, store: StageStore, progress: Progress, shelf: Shelf) -> _Bench:
    """Data and original recommender of one seed, the original measured."""
    room = Workroom(settle(run.model_copy(update={"seed": seed})), store, progress, shelf)
    ground = lay_ground(room)
    for part, examples in (("forget", ground.split.valid.forget), ("retain", ground.split.valid.retain)):
        if not len(examples):
            raise DataFault(
                f"the {part} side of the validation part is empty, so there is nothing to tune by",
                where=room.setting.task.name,
                hint="use a task with validation examples on both sides, or run with --ruleset default or fixed",
            )
    sids = tokens(room, ground)
    before = original(room, ground, sids)
    sids = deployed(room, sids, before)
    found = validated(room, ground, before)
    if found.not_finite:
        raise CorruptArtefact(
            f"the original recommender's weights are not finite: {found.not_finite}",
            where=str(before.stage.path),
            hint="its training diverged: lower its learning rate (--set-backbone training.lr=…)",
        )
    measured = Measured(
        seed=seed, forget_hr=found.forget_hr, retain_ndcg=found.retain_ndcg, validate_seconds=found.seconds
    )
    return _Bench(room.setting, ground, sids, before, measured)


def _try(
    request: TuningRequest,
    config: MethodConfig,
    benches: Sequence[_Bench],
    store: StageStore,
    progress: Progress,
    shelf: Shelf,
) -> Trial:
    """One configuration at all seeds, or up to the first at which it diverges."""
    seeds: list[Measured] = []
    for bench in benches:
        seed = bench.setting.seed
        room = Workroom(settle(_trial(request.run, config, seed)), store, progress, shelf)
        row = unlearned(room, bench.ground, bench.sids, bench.before)
        if read_notes(row.stage.path)["diverged"]:
            seeds.append(_diverged(seed, row.seconds, 0.0))
            break
        found = validated(room, bench.ground, row)
        if found.not_finite:
            seeds.append(_diverged(seed, row.seconds, found.seconds))
            break
        seeds.append(
            Measured(
                seed=seed,
                forget_hr=found.forget_hr,
                retain_ndcg=found.retain_ndcg,
                unlearn_seconds=row.seconds,
                validate_seconds=found.seconds,
            )
        )
    return mean_trial(config.model_dump(mode="json"), seeds)


def _diverged(seed: int, unlearning: float, validation: float) -> Measured:
    return Measured(
        seed=seed,
        forget_hr=None,
        retain_ndcg=None,
        unlearn_seconds=unlearning,
        validate_seconds=validation,
        diverged=True,
    )


def _tuned(
    request: TuningRequest, setting: Setting, benches: Sequence[_Bench], trials: Sequence[Trial], space: int
) -> Tuned:
    entry, ground = setting.entry, benches[0].ground
    before = mean_trial({}, [bench.measured for bench in benches])
    chosen = choose(trials, before)
    if chosen is None:
        raise BenchError(
            f"every configuration of {entry.name!r} diverged ({len(trials)} tried), so there is none to choose",
            hint="list smaller learning rates in the method's search space, or --set a smaller one",
        )
    searched = search_space(type(setting.method_config), {**entry.fields, **request.run.method_set})
    choice = Choice(
        protocol_version=PROTOCOL_VERSION,
        suite_version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        task=setting.task.name,
        dataset_digest=ground.dataset.manifest.digest,
        task_digest=ground.split.manifest.digest,
        backbone=setting.backbone.name,
        backbone_digest=recommender_digest(setting.backbone_config, setting.sid_config),
        scale=setting.scale.value,
        encoder=setting.encoder.key,
        device=setting.device_kind,
        method=entry.name,
        method_digest=method_digest(entry),
        seeds=request.seeds,
        searched=tuple(searched),
        space=space,
        original=before,
        trials=tuple(trials),
        chosen=chosen[0],
        feasible=chosen[1],
        seconds=sum(trial.seconds for trial in trials),
        command=request.command(scale=setting.scale.value),
    )
    defaults = type(setting.method_config).model_validate(dict(entry.fields)).model_dump(mode="json")
    changes = {name: value for name, value in choice.config.items() if value != defaults[name]}
    return Tuned(choice, changes)


def _told(config: MethodConfig, default: MethodConfig) -> str:
    """What a trial changes, for the progress line."""
    one, other = config.model_dump(mode="json"), default.model_dump(mode="json")
    changes = [f"{name}={value}" for name, value in one.items() if value != other[name]]
    return f": {', '.join(changes)}" if changes else ": the default"
