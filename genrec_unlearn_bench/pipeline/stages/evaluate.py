"""Evaluation stages of one model: core metrics with per-user table and ranked lists; further measurements; validation.

References are measured once for all methods of a seed, and a new measurement repeats none of the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.backbones.early_stopping import mean_ndcg
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.core import evaluate
from genrec_unlearn_bench.evaluation.decode import EvaluationContext, decode, given_histories
from genrec_unlearn_bench.evaluation.lists import LISTS
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    SharedPass,
    Subject,
    read_measured,
    read_parts,
    run_parts,
    write_measured,
    write_parts,
)
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.probing.states import untrained
from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.pipeline.environment import metered
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
from genrec_unlearn_bench.pipeline.results import PER_USER
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.pipeline.stages.train import TrainingStages
from genrec_unlearn_bench.pipeline.stages.unlearn import Situation, first_not_finite, generative
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.tuning.rule import BEAM, ROWS
from genrec_unlearn_bench.unlearning.validation import sample, validate

VALUES = "values.json"
VALIDATION = "validation.json"
SASREC = "sasrec quality"

_VALUES = TypeAdapter(tuple[MetricValue, ...])


@dataclass(frozen=True, eq=False)
class Scores:
    """Files of an evaluation stage. A model whose weights are not finite has neither values nor a per-user table."""

    folder: Path

    @cached_property
    def values(self) -> tuple[MetricValue, ...]:
        """The core metrics."""
        return _VALUES.validate_json((self.folder / VALUES).read_bytes())

    @property
    def per_user(self) -> Path | None:
        """The per-user table, if anything was measured."""
        path = self.folder / PER_USER
        return path if path.is_file() else None


def evaluate_stage(
    resolved: ResolvedRequest,
    data: Mapping[str, Stage],
    sids: Stage,
    model: Stage,
    *,
    config: Mapping[str, Any] | None = None,
    situation: Situation | None = None,
    own_tokenizer: bool = False,
    label: str = "",
) -> Stage:
    """Core measurements of a stored ranker, on the task of ``situation`` if that is not the whole one.

    Args:
        sids: The original recommender's semantic IDs, which exposure and leakage are measured in.
        config: Further entries of the stage's configuration.
        own_tokenizer: The model was trained from scratch on semantic IDs of its own, and is exposed in these.
    """
    seed = resolved.seed

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
        prepared = situation(inputs) if situation else prepare_task(inputs, resolved)
        original_sids = inputs["sids"]
        ranker = inputs.model("model")
        if first_not_finite(ranker):
            (folder / VALUES).write_text("[]\n", encoding="utf-8")
            return
        subject = EvaluationContext(
            ranker=ranker,
            original_sids=original_sids,
            items=prepared.dataset.items,
            split=prepared.split,
            features=prepared.features,
            seed=seed,
            own_tokenizer=own_tokenizer,
        )
        values = evaluate(subject, folder / PER_USER, folder / LISTS, context.progress)
        (folder / VALUES).write_bytes(_VALUES.dump_json(values, indent=1))

    settings = {"suite": "core", "protocol": PROTOCOL_VERSION, "seed": seed, **resolved.holdout, **(config or {})}
    if own_tokenizer:
        settings["exposed"] = "own tokenizer"
    return Stage(
        "evaluation",
        2,
        settings | resolved.hardware,
        {**data, "sids": sids, "model": model},
        compute=compute,
        load=lambda inputs, folder: Scores(folder),
        seed=seed,
        keep=True,
        label=label or f"evaluation of {model.title}",
    )


def sasrec_stage(resolved: ResolvedRequest, data: Mapping[str, Stage]) -> Stage:
    """Retain NDCG@10 of SASRec on the task's test part, for all backbones, methods and seeds; loads a float.

    SASRec is the row's of that name at the same scale, with seed 0 for every seed, so that it is trained once.
    """
    first = resolved.of_seed(0)
    sasrec = replace(TrainingStages(first, data).sasrec(), label="sasrec to compare with")

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
        test, ranker = prepare_task(inputs, first).split.test.retain, inputs.model("model")
        histories, label = given_histories(ranker, test), "retain test, SASRec"
        ranking = decode(ranker, histories, beam=LIST_LENGTH, label=label, progress=context.progress)
        write_json(folder / VALUES, {"retain_ndcg": mean_ndcg(ranking, test.targets) if len(test) else 0.0})

    return Stage(
        "sasrec-quality",
        1,
        {**resolved.holdout, **resolved.hardware},
        {**data, "model": sasrec},
        compute=compute,
        load=lambda inputs, folder: float(json.loads((folder / VALUES).read_bytes())["retain_ndcg"]),
        label=SASREC,
    )


def measurement_stages(
    resolved: ResolvedRequest, data: Mapping[str, Stage], sids: Stage, model: Stage, *, as_untrained: bool = False
) -> dict[str, Stage]:
    """The stages of a suite's measurements on one model, by their name.

    ``as_untrained``: on the model's shape with random weights instead, for the measurements that ask for it.
    """

    def stage(measured: Measurement | SharedPass, more: Mapping[str, Stage], config: Any, **functions: Any) -> Stage:
        settings = {"seed": resolved.seed, "scale": resolved.scale.value, **resolved.hardware, **config}
        return Stage(
            measured.name,
            measured.version,
            settings | ({"weights": "untrained"} if as_untrained else {}),
            {**data, "sids": sids, "model": model, **more},
            seed=resolved.seed,
            keep=True,
            label=f"{measured.name}: {'untrained' if as_untrained else model.title}",
            **functions,
        )

    def shared_pass(shared: SharedPass) -> Stage:
        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject = _subject(resolved, inputs, as_untrained=as_untrained)
            _reseed(resolved, shared.name)
            found = subject if isinstance(subject, Measured) else shared.run(subject, context.log())
            write_measured(found, folder)

        return stage(shared, {}, {}, compute=compute, load=lambda inputs, folder: read_measured(folder))

    def whole(measurement: Measurement) -> Stage:
        passes = {shared.name: shared_pass(shared) for shared in measurement.passes}
        config = resolved.measuring[measurement.name]

        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject = _subject(resolved, inputs, as_untrained=as_untrained)
            if isinstance(subject, Measured):
                write_parts({"": subject}, folder)
                return
            log, work = context.log(), context.store.work(inputs.stage.name, inputs.stage.key)
            found = {name: inputs[name] for name in passes}
            reseed = partial(_reseed, resolved, measurement.name)
            run_parts(measurement, subject, config, log, folder, passes=found, work=work, reseed=reseed)

        return stage(
            measurement, passes, {"config": config}, compute=compute, load=lambda inputs, folder: read_parts(folder)
        )

    found = [find_measurement(name) for name in resolved.suite.measurements]
    return {one.name: whole(one) for one in found if one.untrained or not as_untrained}


def _reseed(resolved: ResolvedRequest, name: str) -> None:
    """Set torch's generator as before every stage: loading a model has drawn from it."""
    torch.manual_seed(derive(resolved.seed, "stage", name))


def _subject(resolved: ResolvedRequest, inputs: Inputs, *, as_untrained: bool) -> Subject | Measured:
    """What is measured, or an outcome with the reason why it cannot be."""
    prepared = prepare_task(inputs, resolved)
    if prepared.holdout is None:
        raise BenchError(f"the suite {resolved.suite.name!r} measures without a holdout")
    recommender = inputs.model("model")
    if not isinstance(recommender, Recommender):
        name = inputs.stage.inputs["model"].name
        return Measured(reason=f"{name} is no generative recommender: it has no tokens and no layers")
    if as_untrained:
        recommender = untrained(recommender, resolved.seed)
    if first_not_finite(recommender):
        return Measured(reason="the weights are not finite")
    return Subject(
        recommender=recommender,
        original_sids=inputs["sids"],
        split=prepared.split,
        features=prepared.features,
        holdout=prepared.holdout,
        scale=resolved.scale.value,
        seed=resolved.seed,
    )


def validate_stage(resolved: ResolvedRequest, data: Mapping[str, Stage], model: Stage, sids: Stage) -> Stage:
    """Measure a stored recommender on the task's validation parts, and on nothing else.

    Loads the fields of ``unlearning.validation.Validation``, ``seconds`` of the measurement alone, and ``not_finite``:
    the first parameter that is not finite, with which nothing is measured.
    """

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        prepared = prepare_task(inputs, resolved)
        recommender = generative(inputs.model("model"))
        fault = first_not_finite(recommender)
        found: dict[str, Any] = {}
        with metered(resolved.device) as reading:
            if not fault:
                valid = sample(prepared.split.valid, ROWS, 0)
                near = prepared.split.retain_near(valid.retain)
                found = vars(validate(recommender, valid, beam=BEAM, original=inputs["sids"], near=near))
        write_json(folder / VALIDATION, {"not_finite": fault, **found, "seconds": reading.seconds})
        return {"seconds": reading.seconds}

    return Stage(
        "validated",
        3,
        {"part": "valid", "beam": BEAM, "rows": ROWS, **resolved.holdout, **resolved.hardware},
        {**data, "model": model, "sids": sids},
        compute=compute,
        load=lambda inputs, folder: json.loads((folder / VALIDATION).read_bytes()),
        seed=resolved.seed,
        label=f"validation of {model.title}",
    )
