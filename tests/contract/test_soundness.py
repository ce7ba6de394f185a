"""Faults of a method's result are found: one lookalike method for every fault."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.contract.calls import fingerprint, list_faults
from genrec_unlearn_bench.contract.check import STEPS, reduced_fields
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.descent import DescentConfig, backward, descend
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests import planted_overlap
from tests.smoke.matrix import examine

Work = Callable[[Recommender, ForgetRequest, Progress], Recommender]


class Toy(UnlearningMethod[DescentConfig]):
    """Descends on the retain loss: the least that a method can be."""

    name = "toy"
    Config = DescentConfig

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()

        def step(batch: object) -> dict[str, torch.Tensor]:
            part = batch.retain  # type: ignore[attr-defined]
            loss = -model.forward(part.histories(model.history_limit), part.targets).token_log_probs().mean()
            backward(loss)
            return {"retain": loss}

        descend(model, request, self.config, step, progress)
        return model


class Doing(UnlearningMethod[MethodConfig]):
    """Whatever it is given to do."""

    name = "doing"

    def __init__(self, work: Work) -> None:
        super().__init__(MethodConfig())
        self.work = work

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return self.work(recommender, request, progress)


@pytest.fixture(scope="module")
def request_() -> ForgetRequest:
    return planted_overlap.request()


@pytest.fixture(scope="module")
def measured() -> Groups:
    return planted_overlap.measured_part()


@pytest.fixture
def model() -> T5Recommender:
    """Untrained: none of this is about what it has learned."""
    torch.set_num_threads(1)
    return T5Recommender.fresh(planted_overlap.SHAPE, planted_overlap.sids(0.5), seed=0)


def nudged(recommender: Recommender) -> Recommender:
    model = recommender.clone()
    with torch.no_grad():
        next(model.module.parameters()).add_(1e-3)
    return model


def change_original(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
    with torch.no_grad():
        next(recommender.module.parameters()).add_(1e-3)
    return nudged(recommender)


def leave_original_training(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
    recommender.module.train(not recommender.module.training)
    return nudged(recommender)


def do_nothing(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
    return recommender.clone()


def leave_a_hook(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
    model = nudged(recommender)
    model.module.register_forward_hook(lambda module, inputs, output: output)
    return model


def leave_a_parameter_frozen(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
    model = nudged(recommender)
    next(model.module.parameters()).requires_grad_(False)
    return model


def leave_a_part_of_its_own(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
    model = nudged(recommender)
    model.module.register_parameter("adapter", torch.nn.Parameter(torch.ones(1)))
    return model


def report_no_number(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
    progress.log("unlearn", 0, {"forget": 1.0})
    progress.log("unlearn", 1, {"forget": math.nan})
    return nudged(recommender)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (change_original, "the original was changed"),
        (leave_original_training, "the original was changed"),
        (do_nothing, "nothing has changed"),
        (leave_a_hook, "1 hooks were left behind"),
        (leave_a_parameter_frozen, "no longer require gradients"),
        (leave_a_part_of_its_own, "other parameters than the original's: adapter"),
        (report_no_number, "not finite: unlearn, step 1"),
    ],
)
def test_a_faulty_method_is_caught(
    model: T5Recommender, request_: ForgetRequest, measured: Groups, work: Work, words: str
) -> None:
    _, faults = examine(Doing(work), model, request_, measured)
    assert any(words in fault for fault in faults), faults


def test_a_sound_method_passes_after_three_steps(
    model: T5Recommender, request_: ForgetRequest, measured: Groups
) -> None:
    fields = reduced_fields("toy", DescentConfig)
    assert fields == {"max_steps": STEPS}
    assert examine(Toy(DescentConfig(**fields)), model, request_, measured) == ("ok", [])


def test_changing_the_table_or_the_serving_alone_counts(
    model: T5Recommender, request_: ForgetRequest, measured: Groups
) -> None:
    def move(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return recommender.with_sids(planted_overlap.sids(0.0))

    def block(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return recommender.with_serving(replace(recommender.serving, blocked=request.items))

    assert examine(Doing(move), model, request_, measured) == ("ok", [])
    assert examine(Doing(block), model, request_, measured) == ("ok", [])


def test_saying_that_it_is_not_applicable_is_no_fault(
    model: T5Recommender, request_: ForgetRequest, measured: Groups
) -> None:
    def decline(recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        progress.note("applicable", False)
        return recommender.clone()

    assert examine(Doing(decline), model, request_, measured) == ("null", [])


def test_lists_that_break_their_bounds_are_caught(model: T5Recommender, measured: Groups) -> None:
    class Twice(T5Recommender):
        def recommend(self, histories, k, *, beam=50, exact=False, sids=None):  # type: ignore[no-untyped-def]
            found = super().recommend(histories, k, beam=beam, exact=exact, sids=sids)
            return replace(found, items=np.where(np.arange(k) == 3, found.items[:, :1], found.items))

    model.__class__ = Twice
    assert any("twice" in fault for fault in list_faults(model, measured, rows=8))


def test_a_fingerprint_is_of_bits(model: T5Recommender) -> None:
    assert fingerprint(model) == fingerprint(model.clone())
    assert fingerprint(model).content != fingerprint(nudged(model)).content
