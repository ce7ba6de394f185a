"""Shadow models for U-LiRA (``evaluation.ulira``): originals that saw half of the forget set each, and unlearned it.

Opt-in (``--shadows N``), as N recommenders are trained from scratch. A shadow is the run's own cell with another seed
and less data, and the same configuration, semantic IDs and method. Its training, unlearning and confidences are stages,
so methods of a seed share the shadow originals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.holdout import Thinning
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.measurement import unmeasured
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.ulira import SPECS, confidence, halves, ulira_values
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.pipeline.stages.train import fit_stage, whole_data
from genrec_unlearn_bench.pipeline.stages.unlearn import first_not_finite, generative, unlearn_stage
from genrec_unlearn_bench.seeding import derive, numpy_generator

EXAMPLES = 200
"""Most forget train interactions whose membership is inferred, one example of each."""
LEAST_EXAMPLES = 20
MOST_PARAMETERS = 100_000_000
"""Of a recommender that shadow models are trained of: T5 sizes. No language model is trained N times for one metric."""
STAGE = "u-lira"
_CONFIDENCES = "confidences.npy"


def shadow_stage(resolved: ResolvedRequest, data: Mapping[str, Stage], sids: Stage, original: Stage) -> Stage:
    """U-LiRA's metrics on the row. All shadows use the deployed semantic IDs.

    The original is attacked with the shadow originals themselves. Other reference rows have no shadows: retrained
    models never saw the forget set, so trained and never trained are the same distribution by construction.
    """
    unlearns = resolved.method is not None or resolved.entry.name == "original"
    numbers = range(1, resolved.request.shadows + 1) if unlearns else ()
    shadows = {f"shadow {number}": _confidence_stage(resolved, data, sids, original, number) for number in numbers}

    def load(inputs: Inputs, folder: Path) -> tuple[MetricValue, ...]:
        if not unlearns:
            reason = f"the row {resolved.entry.name!r} unlearns nothing, so that no shadow models of it are trained"
            return unmeasured(SPECS, reason)
        prepared = prepare_task(inputs, resolved)
        examples = _examples(prepared, resolved.seed)
        pairs, included = _halves(prepared, resolved)
        places = np.searchsorted(pairs, _codes(prepared, examples.users, examples.targets))
        return ulira_values(np.stack([inputs[role] for role in shadows]), included[:, places])

    return Stage(
        f"{STAGE}-metrics", 1, {"row": resolved.entry.name, "seed": resolved.seed}, {**data, **shadows}, load=load
    )


def _confidence_stage(
    resolved: ResolvedRequest, data: Mapping[str, Stage], sids: Stage, original: Stage, number: int
) -> Stage:
    """Train and unlearn one shadow, and take its logit-scaled confidences [T] in the examples.

    NaN where its weights are not finite.
    """
    shadow = {"of_seed": resolved.seed, "count": resolved.request.shadows, "number": number}
    own = resolved.of_seed(derive(resolved.seed, "shadow", number))

    def situation(inputs: Inputs) -> PreparedTask:
        prepared = prepare_task(inputs, resolved)
        pairs, included = _halves(prepared, resolved)
        # Tokenizer and item features are the run's: shadows do not measure what semantic IDs give away.
        left_out = Thinning(pairs[~included[number - 1]], _width(prepared))
        return replace(prepared, dataset=left_out.dataset(prepared.dataset), split=left_out.split(prepared.split))

    def training_data(inputs: Inputs) -> TrainingData:
        _check_size(generative(inputs["size"]))
        _examples(prepare_task(inputs, resolved), resolved.seed)
        return whole_data(situation(inputs).dataset, inputs)

    inputs, config = {**data, "sids": sids, "size": original}, {"holdout": True, "shadow": shadow}
    model = fit_stage(own, "original", inputs, training_data, seed=own.seed, config=config)
    model = replace(model, label=f"shadow {number}")
    if resolved.method is not None:
        model = unlearn_stage(
            own, data, sids, model, config={"shadow": shadow}, situation=situation, label=f"unlearned shadow {number}"
        )

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
        examples = _examples(prepare_task(inputs, resolved), resolved.seed)
        recommender, found = generative(inputs.model("model")), np.full(len(examples), np.nan)
        if not first_not_finite(recommender):
            # Histories as the run trained on them, the same for every shadow.
            limit = None if recommender.serving.ignored is not None else recommender.history_limit
            logs = recommender.target_log_probs(examples.histories(limit), examples.targets).double().sum(1)
            found = confidence(logs.numpy())
        np.save(folder / _CONFIDENCES, found, allow_pickle=False)

    return Stage(
        STAGE,
        1,
        {"examples": EXAMPLES, "seed": resolved.seed, **resolved.hardware},
        {**data, "model": model},
        compute=compute,
        load=lambda inputs, folder: np.load(folder / _CONFIDENCES, allow_pickle=False),
        seed=resolved.seed,
        label=f"{STAGE}: shadow {number}",
    )


def _examples(prepared: PreparedTask, seed: int) -> Examples:
    """One train example each of up to ``EXAMPLES`` forget pairs, the same for all methods of a seed."""
    forget = prepared.split.train.forget
    _, first = np.unique(_codes(prepared, forget.users, forget.targets), return_index=True)
    if len(first) < LEAST_EXAMPLES:
        raise UsageError(
            f"{len(first)} forget train interactions are too few for shadow models; {LEAST_EXAMPLES} are needed",
            hint="leave out --shadows",
        )
    generator = numpy_generator(seed, "shadows", "examples")
    return forget.subset(np.sort(generator.choice(first, size=min(EXAMPLES, len(first)), replace=False)))


def _check_size(recommender: Recommender) -> None:
    size = sum(parameter.numel() for parameter in recommender.module.parameters())
    if size > MOST_PARAMETERS:
        raise UsageError(
            f"the recommender has {size / 1e6:.0f} million parameters, and shadow models are trained of up to "
            f"{MOST_PARAMETERS / 1e6:.0f} million",
            hint="leave out --shadows",
        )


def _codes(prepared: PreparedTask, users: IntArray, items: IntArray) -> IntArray:
    """[M] one number for each (user, item) pair."""
    return np.asarray(users * _width(prepared) + items, dtype=np.int64)


def _width(prepared: PreparedTask) -> int:
    return max(len(prepared.dataset.items), 1)


def _halves(prepared: PreparedTask, resolved: ResolvedRequest) -> tuple[IntArray, BoolArray]:
    """[U] sorted codes of the distinct forget train pairs, and [N, U] which of them each shadow saw."""
    forget = prepared.split.train.forget
    pairs = np.unique(_codes(prepared, forget.users, forget.targets))
    generator = numpy_generator(resolved.seed, "shadows", "halves")
    return pairs, halves(resolved.request.shadows, len(pairs), generator)
