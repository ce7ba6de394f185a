"""Evaluation stages of one model: core metrics with per-user table and ranked lists; further measurements; validation.

References are measured once for all methods of a seed, and a new measurement repeats none of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.core import evaluate
from genrec_unlearn_bench.evaluation.decode import EvaluationContext
from genrec_unlearn_bench.evaluation.lists import LISTS
from genrec_unlearn_bench.evaluation.measured_parts import (
    StoredParts,
    read_measured,
    run_parts,
    write_measured,
    write_parts,
)
from genrec_unlearn_bench.evaluation.measurement import Measured, Measurement, SharedPass, Subject
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.probing.states import untrained
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.pipeline.environment import metered
from genrec_unlearn_bench.pipeline.results import PER_USER
from genrec_unlearn_bench.pipeline.stage import Stage
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.pipeline.stages.unlearn import Situation, first_not_finite
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.tuning.rule import BEAM, ROWS
from genrec_unlearn_bench.unlearning.validation import sample, validate

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
    from genrec_unlearn_bench.pipeline.stage import Inputs, StageContext

VALUES = "values.json"
VALIDATION = "validation.json"

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

    @property
    def measured(self) -> bool:
        """Whether anything was measured."""
        return self.per_user is not None


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
    """Core measurements of a stored ranker.

    Args:
        sids: The original recommender's semantic IDs, which exposure and leakage are measured in.
        config: Further entries of the stage's configuration.
        situation: The task to measure on, if not the whole one.
        own_tokenizer: The model was trained from scratch on semantic IDs of its own, and is exposed in these.
    """
    seed = resolved.seed
    asked = situation or (lambda inputs: prepare_task(inputs, resolved))

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
        prepared = asked(inputs)
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


@dataclass(frozen=True)
class MeasurementStages:
    """Builds the stages of a suite's measurements on one model.

    Attributes:
        data: Stages ``dataset``, ``task``, ``features`` and ``scrubbed``.
        sids: The original recommender's semantic IDs.
        as_untrained: Measure the model's shape with random weights instead, for the measurements that ask for it.
    """

    resolved: ResolvedRequest
    data: Mapping[str, Stage]
    sids: Stage
    model: Stage
    as_untrained: bool = False

    def build(self) -> dict[str, Stage]:
        """The stage of each measurement, by its name."""
        found = [find_measurement(name) for name in self.resolved.suite.measurements]
        return {one.name: self._measurement(one) for one in found if one.untrained or not self.as_untrained}

    def _measurement(self, measurement: Measurement) -> Stage:
        config = self.resolved.measuring[measurement.name]
        passes = {shared.name: self._shared_pass(shared) for shared in measurement.passes}

        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject, reason = self._subject(inputs)
            if subject is None:
                write_parts({"": Measured(reason=reason)}, folder)
                return
            run_parts(
                measurement,
                subject,
                config,
                context.log(),
                folder,
                passes={name: inputs[name] for name in passes},
                work=context.store.work(inputs.stage.name, inputs.stage.key),
                reseed=lambda: self._reseed(measurement.name),
            )

        return self._stage(
            measurement,
            config={"config": config},
            inputs=passes,
            compute=compute,
            load=lambda inputs, folder: StoredParts(folder),
        )

    def _shared_pass(self, shared: SharedPass) -> Stage:
        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject, reason = self._subject(inputs)
            self._reseed(shared.name)
            found = Measured(reason=reason) if subject is None else shared.run(subject, context.log())
            write_measured(found, folder)

        return self._stage(shared, compute=compute, load=lambda inputs, folder: read_measured(folder))

    def _stage(
        self,
        measured: Measurement | SharedPass,
        *,
        config: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Stage] | None = None,
        **functions: Any,
    ) -> Stage:
        resolved = self.resolved
        title = "untrained" if self.as_untrained else self.model.title
        asked = {"seed": resolved.seed, "scale": resolved.scale.value, **resolved.hardware, **(config or {})}
        if self.as_untrained:
            asked["weights"] = "untrained"
        return Stage(
            measured.name,
            measured.version,
            asked,
            {**self.data, "sids": self.sids, "model": self.model, **(inputs or {})},
            seed=resolved.seed,
            keep=True,
            label=f"{measured.name}: {title}",
            **functions,
        )

    def _reseed(self, name: str) -> None:
        """Set torch's generator as before every stage: loading a model has drawn from it."""
        import torch

        torch.manual_seed(derive(self.resolved.seed, "stage", name))

    def _subject(self, inputs: Inputs) -> tuple[Subject | None, str]:
        resolved = self.resolved
        prepared = prepare_task(inputs, resolved)
        if prepared.holdout is None:
            raise BenchError(f"the suite {resolved.suite.name!r} measures without a holdout")
        recommender = inputs.model("model")
        if not isinstance(recommender, Recommender):
            return None, f"{self.model.name} is no generative recommender: it has no tokens and no layers"
        if self.as_untrained:
            recommender = untrained(recommender, resolved.seed)
        if first_not_finite(recommender):
            return None, "the weights are not finite"
        return Subject(
            recommender=recommender,
            original_sids=inputs["sids"],
            items=prepared.dataset.items,
            split=prepared.split,
            features=prepared.features,
            holdout=prepared.holdout,
            scale=resolved.scale.value,
            device=resolved.device,
            seed=resolved.seed,
        ), ""


class ValidationScores(StrictModel):
    """A recommender on the task's validation parts."""

    not_finite: str = ""
    """The first parameter that is not finite; then nothing was measured."""
    forget_hr: float | None = None
    """HR@10 of the forget part, as served."""
    retain_ndcg: float | None = None
    exposed_hr: float | None = None
    """HR@10 of the forget part by the same weights without serving rules, in the original IDs; null where it was not
    measured."""
    near_ndcg: float | None = None
    """NDCG@10 of the retain rows near the concept; null where there are none."""
    forget_hits: tuple[int, ...] | None = None
    exposed_hits: tuple[int, ...] | None = None
    """User of every forget row with its target among the first ten, as served and exposed."""
    forget_rows: int = 0
    retain_rows: int = 0
    seconds: float = 0.0
    """Wall-clock of the measurement alone."""


def validate_stage(
    resolved: ResolvedRequest, data: Mapping[str, Stage], model: Stage, sids: Stage | None = None
) -> Stage:
    """Measure a stored recommender on the task's validation parts, and on nothing else.

    Args:
        sids: The original recommender's semantic IDs; without them nothing is known of what is exposed.
    """

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        prepared = prepare_task(inputs, resolved)
        recommender = inputs.model("model")
        if not isinstance(recommender, Recommender):
            raise BenchError(f"the backbone {resolved.backbone.name!r} gives no generative recommender to validate")
        fault = first_not_finite(recommender)
        with metered(resolved.device) as reading:
            found = None
            if not fault:
                valid = sample(prepared.split.valid, ROWS, 0)
                near = prepared.split.retain_near(valid.retain)
                original = inputs["sids"] if sids else None
                found = validate(recommender, valid, beam=BEAM, original=original, near=near)
        scores = ValidationScores(not_finite=fault) if found is None else ValidationScores(**vars(found))
        text = scores.model_copy(update={"seconds": reading.seconds}).model_dump_json(indent=2)
        (folder / VALIDATION).write_text(text + "\n", encoding="utf-8")
        return {"seconds": reading.seconds}

    return Stage(
        "validated",
        2,
        {"part": "valid", "beam": BEAM, "rows": ROWS, **resolved.holdout, **resolved.hardware},
        {**data, "model": model} | ({"sids": sids} if sids else {}),
        compute=compute,
        load=lambda inputs, folder: ValidationScores.model_validate_json((folder / VALIDATION).read_bytes()),
        seed=resolved.seed,
        label=f"validation of {model.title}",
    )
