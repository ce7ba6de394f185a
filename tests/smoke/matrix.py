"""One cell of the smoke matrix: a method on a backbone for a kind of request, a few steps at smoke scale.

No benchmark: no oracle, no stored result. One original serves all four kinds of request and all methods; it comes from
the same stages as any other run's, so that a matrix after a smoke run trains nothing.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, Literal

import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.contract.calls import fingerprint, list_faults, result_faults
from genrec_unlearn_bench.contract.check import reduced_fields
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.graph import recommender_stages
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest

Status = Literal["ok", "null"]
"""``null``: it ran and notes that it is not applicable, or found nothing to edit."""

ROWS = 64
"""Test users of each group whose lists are checked."""


def run_cell(name: str, backbone: str, task: str, context: StageContext) -> tuple[Status, list[str]]:
    """Unlearn with a method, and check everything that it must leave in order.

    Raises CapabilityMissing where the method declares that it does not serve this.
    """
    # mypy: an abstract class may be looked for, it is only instantiated by the pipeline.
    found: type[UnlearningMethod[Any]] = load_class(find_method(name), UnlearningMethod)  # type: ignore[type-abstract]
    request = RunRequest(
        task=task,
        method=name,
        backbone=backbone,
        scale="smoke",
        device="cpu",
        method_set=reduced_fields(found.name, found.Config),
    )
    resolved = resolve(request)
    assert resolved.method is not None
    with determinism(resolved.threads):
        data, _, original, _ = recommender_stages(resolved, context.progress)
        inputs = Inputs(Stage("cell", 1, inputs={**data, "original": original}), context)
        prepared = prepare_task(inputs, resolved, holdout=False)
        recommender = inputs["original"]
        assert isinstance(recommender, Recommender)
        with torch.random.fork_rng():
            torch.manual_seed(derive(resolved.seed, "stage", "unlearned"))
            return examine(resolved.method, recommender, prepared.request(resolved.seed), prepared.split.test)


def examine(
    method: UnlearningMethod[Any], recommender: Recommender, request: ForgetRequest, test: Groups
) -> tuple[Status, list[str]]:
    """Run a method once; what is wrong with the original, the losses, the result or its lists."""
    before = fingerprint(recommender)
    progress = Progress()
    result = method.unlearn(recommender, request, progress)
    faults = []
    if fingerprint(recommender) != before:
        faults.append("the original was changed")
    if progress.diverged:
        step = next(step for step in progress.steps if not all(map(math.isfinite, step.losses.values())))
        faults.append(f"losses that are not finite: {step.stage}, step {step.step}, {dict(step.losses)}")
    with tempfile.TemporaryDirectory() as folder:
        faults += result_faults(before, result, Path(folder) / "model")
    faults += list_faults(result, test, ROWS)
    unchanged = fingerprint(result).content == before.content
    null = progress.notes.get("applicable") is False or progress.notes.get("edited_vectors") == 0
    if unchanged and not null:
        faults.append("nothing has changed: neither weights nor semantic IDs nor serving rules")
    return "null" if unchanged else "ok", faults
