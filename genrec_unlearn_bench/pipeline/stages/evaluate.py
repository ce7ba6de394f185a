"""Evaluation stages: core metrics, per-user table and ranked lists of one model; and validation, for tuning."""

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
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.pipeline.environment import metered
from genrec_unlearn_bench.pipeline.results import PER_USER
from genrec_unlearn_bench.pipeline.stage import Stage
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.pipeline.stages.unlearn import Situation, first_not_finite
from genrec_unlearn_bench.tuning.rule import BEAM
from genrec_unlearn_bench.unlearning.validation import validate

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
    from genrec_unlearn_bench.pipeline.stage import Inputs, StageContext

VALUES = "values.json"
VALIDATION = "validation.json"

_VALUES = TypeAdapter(tuple[MetricValue, ...])


@dataclass(frozen=True, eq=False)
class Scores:
    """What an evaluation stage holds. A model whose weights are not finite has neither values nor table."""

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
        """Whether anything was."""
        return self.per_user is not None


def evaluate_stage(
    resolved: ResolvedRequest,
    data: Mapping[str, Stage],
    sids: Stage,
    model: Stage,
    *,
    config: Mapping[str, Any] | None = None,
    situation: Situation | None = None,
    label: str = "",
) -> Stage:
    """Core measurements of a stored ranker.

    Args:
        sids: The original recommender's semantic IDs, which leakage is measured in.
        config: What the key says beyond protocol and seed.
        situation: The task as it is measured, if not as it stands.
    """
    seed, holdout = resolved.seed, resolved.suite.holdout
    asked = situation or (lambda inputs: prepare_task(inputs, resolved.encoder.key, holdout=holdout))

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
        )
        values = evaluate(subject, folder / PER_USER, folder / LISTS, context.progress)
        (folder / VALUES).write_bytes(_VALUES.dump_json(values, indent=1))

    return Stage(
        "evaluation",
        1,
        {
            "suite": "core",
            "protocol": PROTOCOL_VERSION,
            "seed": seed,
            **({"holdout": True} if holdout else {}),
            **(config or {}),
            **resolved.hardware,
        },
        {**data, "sids": sids, "model": model},
        compute=compute,
        load=lambda inputs, folder: Scores(folder),
        seed=seed,
        keep=True,
        label=label or f"evaluation of {model.title}",
    )


class ValidationScores(StrictModel):
    """A recommender on the task's validation parts."""

    not_finite: str = ""
    """The first parameter that is no number; then nothing was measured."""
    forget_hr: float | None = None
    retain_ndcg: float | None = None
    forget_rows: int = 0
    retain_rows: int = 0
    seconds: float = 0.0
    """Wall-clock of the measurement alone."""


def validate_stage(resolved: ResolvedRequest, data: Mapping[str, Stage], model: Stage) -> Stage:
    """Measure a stored recommender on the task's validation parts, and on nothing else."""
    holdout = resolved.suite.holdout

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        prepared: PreparedTask = prepare_task(inputs, resolved.encoder.key, holdout=holdout)
        recommender = inputs.model("model")
        if not isinstance(recommender, Recommender):
            raise BenchError(f"the backbone {resolved.backbone.name!r} gives no generative recommender to validate")
        fault = first_not_finite(recommender)
        with metered(resolved.device) as reading:
            found = None if fault else validate(recommender, prepared.split.valid, beam=BEAM)
        scores = ValidationScores(not_finite=fault) if found is None else ValidationScores(**vars(found))
        text = scores.model_copy(update={"seconds": reading.seconds}).model_dump_json(indent=2)
        (folder / VALIDATION).write_text(text + "\n", encoding="utf-8")
        return {"seconds": reading.seconds}

    return Stage(
        "validated",
        1,
        {"part": "valid", "beam": BEAM, **({"holdout": True} if holdout else {}), **resolved.hardware},
        {**data, "model": model},
        compute=compute,
        load=lambda inputs, folder: ValidationScores.model_validate_json((folder / VALIDATION).read_bytes()),
        seed=resolved.seed,
        label=f"validation of {model.title}",
    )
