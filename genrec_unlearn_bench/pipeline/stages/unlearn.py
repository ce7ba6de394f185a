"""The unlearning stage: a method is applied to the original, and timed with nothing else inside the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.backbones.recommender import Ranker, Recommender, ServingRules
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact
from genrec_unlearn_bench.pipeline.environment import Reading, metered
from genrec_unlearn_bench.pipeline.error_mapping import is_out_of_memory
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext, StageLog
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.pipeline.stages.train import MODEL
from genrec_unlearn_bench.registry import Entry, frame_in_file
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest, check_request
from genrec_unlearn_bench.unlearning.sampling import at_most

TOOLKIT_VERSION = 2
"""Of ``unlearning/`` and of what this stage does: raised when a method's outcome can change with its file unchanged."""

SMOKE = {"forget_examples": 5_000, "retain_examples": 20_000}
"""Largest number of train examples that a method is given at smoke scale on other data than the demo: ten passes take
two minutes on one core, whatever the data."""

SKIPPED = "skipped"
"""Note of a request that was not carried out, with the reason."""

_BROKEN = "the original recommender cannot be unlearned from: {} holds NaN or infinity"
_DIVERGED = (
    "its training diverged: lower the learning rate (--set-backbone training.lr=…), or delete that folder and run again"
)

Situation = Callable[["Inputs"], PreparedTask]
"""Gives the task as the method gets it, from the stage's loaded inputs."""


def unlearn_stage(
    resolved: ResolvedRequest,
    data: Mapping[str, Stage],
    sids: Stage,
    original: Stage,
    *,
    config: Mapping[str, Any] | None = None,
    situation: Situation | None = None,
    request_seed: int | None = None,
    step_of_stream: bool = False,
    label: str = "",
    where: str = "",
) -> Stage:
    """Apply the resolved method. Raises DataFault where nothing is to forget or keep, BenchError for a broken contract.

    Args:
        original: What is unlearned from; in a stream, the model after the last request.
        situation: The task as the method gets it, if not the whole one, as which errors say ``where``.
        request_seed: Seed that the method derives its draws from; the run's by default.
        step_of_stream: Pass weights that are not finite on, with a note, instead of refusing them.
    """
    method, entry, seed, device = resolved.method, resolved.entry, resolved.seed, resolved.device
    if method is None:
        raise BenchError(f"{entry.name!r} is a reference row, there is nothing to unlearn")
    settings = {"seed": seed, **resolved.holdout, **resolved.hardware, **(SMOKE if resolved.bounded else {})}

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> Mapping[str, Any]:
        log = context.log()
        task = situation(inputs) if situation else prepare_task(inputs, resolved)
        request = task.request(seed if request_seed is None else request_seed)
        check_request(request, task=where or resolved.task.name)
        request = bounded(request, log) if resolved.bounded else request
        recommender = generative(inputs.model("original"))
        broken = first_not_finite(recommender)
        if broken and not step_of_stream:
            raise CorruptArtefact(_BROKEN.format(broken), where=str(inputs.stored("original").path), hint=_DIVERGED)
        reading, result = Reading(), recommender
        if broken:
            log.note(SKIPPED, f"not carried out: {broken} holds NaN or infinity already")
        else:
            with metered(device) as reading:
                result = _call(method, entry, recommender, request, log)
        # Weights may become NaN outside the losses a method reports.
        log.diverged = log.diverged or bool(first_not_finite(result))
        _keeping_rules(recommender, result).save(folder / MODEL)
        log.write(folder)
        return vars(reading)

    return Stage(
        "unlearned",
        TOOLKIT_VERSION,
        # Not the variant's name: with the same configuration it is the same method.
        {"method": method.name, "config": resolved.method_config, **settings, **(config or {})},
        {**data, "sids": sids, "original": original},
        files={"method": resolved.method_digest},
        compute=compute,
        load=lambda inputs, folder: resolved.backbone.load(folder / MODEL, device=device),
        seed=seed,
        label=label,
    )


def bounded(request: ForgetRequest, log: StageLog) -> ForgetRequest:
    """The request with random train examples where there are more than smoke scale gives, which is noted."""
    before = request.train
    forget = at_most(before.forget, SMOKE["forget_examples"], request.seed, "smoke", "forget")
    retain = at_most(before.retain, SMOKE["retain_examples"], request.seed, "smoke", "retain")
    if (len(forget), len(retain)) != (len(before.forget), len(before.retain)):
        given = f"{len(forget):,} of {len(before.forget):,} forget and {len(retain):,} of {len(before.retain):,} retain"
        log.note("smoke", text := f"the method was given {given} examples of the train part")
        log.info(text)
    return replace(request, train=replace(before, forget=forget, retain=retain))


def _call(
    method: UnlearningMethod[Any], entry: Entry, recommender: Recommender, request: ForgetRequest, log: StageLog
) -> Recommender:
    try:
        result = method.unlearn(recommender, request, log)
    except BenchError:
        raise
    except Exception as fault:
        frame = "" if entry.origin == "package" else frame_in_file(fault, entry.source)
        if not frame or is_out_of_memory(fault):
            raise
        raise BenchError(
            f"the method {entry.name!r} failed: {frame}",
            where=str(entry.source),
            hint="fix the method's file; --debug shows the traceback",
        ) from fault
    if not isinstance(result, Recommender):
        raise BenchError(
            f"the method {entry.name!r} returned {type(result).__name__}, not a recommender",
            hint="return the recommender that has forgotten from unlearn()",
        )
    before, after = recommender.sids, result.sids
    if after.version <= before.version and not np.array_equal(after.codes, before.codes):
        raise BenchError(
            f"the method {entry.name!r} returned other semantic IDs as version {after.version} of the table, and was "
            f"given version {before.version}: attacks and likelihoods in the original IDs would be left out",
            hint="make the new table with SidTable.reassigned",
        )
    return result


def generative(ranker: Ranker) -> Recommender:
    """The ranker, refused with BenchError if it generates nothing."""
    if not isinstance(ranker, Recommender):
        raise BenchError(f"{type(ranker).__name__} is no generative recommender: there is nothing to unlearn from it")
    return ranker


def first_not_finite(ranker: Ranker) -> str:
    """Name of the first parameter that holds NaN or infinity; empty where there is none."""
    if not isinstance(ranker, Recommender):
        return ""
    return next((name for name, weight in ranker.module.named_parameters() if not weight.isfinite().all()), "")


def _keeping_rules(given: Recommender, result: Recommender) -> Recommender:
    """The result under the serving rules of both: a later request that names other items does not put back what an
    earlier one took out of the trie or of histories."""
    before, after = given.serving, result.serving
    if before.blocked is None and before.ignored is None:
        return result
    rules = ((before.blocked, after.blocked), (before.ignored, after.ignored))
    return result.with_serving(
        ServingRules(*(one if other is None else other if one is None else one | other for one, other in rules))
    )
