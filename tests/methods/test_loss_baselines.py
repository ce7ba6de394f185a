"""The methods that change a loss, on the planted recommender: each lowers what it is to lower, and says what broke."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.methods.flat import Flat, FlatConfig
from genrec_unlearn_bench.methods.grad_ascent import GradAscent, GradAscentConfig
from genrec_unlearn_bench.methods.grad_diff import GradDiff, GradDiffConfig
from genrec_unlearn_bench.methods.npo import NPO, NPOConfig
from genrec_unlearn_bench.methods.scrub import Scrub, ScrubConfig
from genrec_unlearn_bench.methods.simnpo import SimNPO, SimNPOConfig
from genrec_unlearn_bench.methods.tracer import Tracer, TracerConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class
from genrec_unlearn_bench.tuning.space import search_space
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.validation import validate
from tests.backbones.p5sid.models import recommender as tree_recommender
from tests.methods.test_trees import request as tree_request
from tests.planted import Planted, sids

Made = Callable[[], UnlearningMethod[Any]]
METHODS: dict[str, Made] = {
    "grad-ascent": lambda: GradAscent(GradAscentConfig(lr=3e-4, batch_size=64)),
    "grad-diff": lambda: GradDiff(GradDiffConfig(lr=1e-3, batch_size=64)),
    "npo": lambda: NPO(NPOConfig(lr=1e-3, batch_size=64)),
    "simnpo": lambda: SimNPO(SimNPOConfig(lr=1e-3, batch_size=64)),
    "scrub": lambda: Scrub(ScrubConfig(lr=1e-3, batch_size=64)),
    "flat": lambda: Flat(FlatConfig(lr=1e-3, batch_size=64)),
    "tracer-no-reassignment": lambda: Tracer(TracerConfig(reassign=False, lr=3e-4, batch_size=64)),
}


def causal() -> CausalRecommender:
    network = NetworkShape(hidden=32, ffn=48, layers=1, heads=4, groups=2)
    return CausalRecommender.fresh(CausalShape(network=network, history_limit=4), sids(), seed=0)


def forget_nll(model: Recommender, planted: Planted) -> float:
    part = planted.request.train.forget
    return -float(model.target_log_probs(part.histories(model.history_limit), part.targets).mean())


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("rmu", "alpha", {1200.0}),
        ("flat", "lr", {3e-6}),
        ("scrub", "min_passes", {1, 3}),
        ("simnpo", "gamma", {0.125}),
        ("simnpo", "beta", {4.5}),
        ("pisces", "auroc", {0.5, 0.6}),
        ("tracer", "lambda_reg", {0.008, 0.08}),
        ("tracer", "phi_lr", {0.03, 0.1, 0.3, 1.0}),
    ],
)
def test_official_values_are_in_the_search(name: str, field: str, values: set[float]) -> None:
    space = search_space(load_class(find_method(name), UnlearningMethod), name, {}, {})
    assert values <= set(space.values[field])


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_each_forgets_and_leaves_the_original_alone(planted: Planted, name: str) -> None:
    original = planted.original
    before = {key: value.clone() for key, value in original.module.state_dict().items()}
    progress = Progress()
    model = METHODS[name]().unlearn(original, planted.request, progress)
    assert not progress.diverged
    assert not model.module.training
    # Held at its ceiling, ascent gives the concept up in likelihood before it does in rank.
    held = name == "grad-ascent"
    assert forget_nll(model, planted) > (1.1 if held else 1.5) * forget_nll(original, planted)
    hits = [validate(each, planted.test).forget_hr for each in (original, model)]
    assert hits[1] <= hits[0] if held else hits[1] < hits[0]
    for key, value in original.module.state_dict().items():
        assert torch.equal(value, before[key]), key


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_interaction_requests_run_and_move(planted: Planted, name: str) -> None:
    request = planted.request
    train = Groups(request.train.forget.subset(np.arange(20)), request.train.retain)
    pairs = np.stack([train.forget.users, train.forget.targets], axis=1)
    asked = replace(request, kind=ConceptKind.INTERACTION, items=np.zeros_like(request.items), pairs=pairs, train=train)
    progress = Progress()
    model = METHODS[name]().unlearn(planted.original, asked, progress)
    assert progress.steps
    assert not progress.diverged
    assert model.sids.digest == planted.table.digest
    state = model.module.state_dict()
    assert any(not torch.equal(value, state[key]) for key, value in planted.original.module.state_dict().items())


@pytest.mark.parametrize("family", ["tree", "causal"])
@pytest.mark.parametrize("name", METHODS)
def test_two_steps_on_the_other_families(name: str, family: str) -> None:
    """Targets of different length, and a causal model."""
    model: Recommender = tree_recommender("sequential") if family == "tree" else causal()
    asked = tree_request()
    few = Groups(*(part.subset(np.arange(6)) for part in (asked.train.forget, asked.train.retain)))
    progress = Progress()
    made = METHODS[name]()
    short = {"epochs": 2} | ({"rewind": True} if name == "scrub" else {})
    made = type(made)(made.config.model_copy(update=short))
    result = made.unlearn(model, replace(asked, train=few, valid=few), progress)
    assert progress.steps
    assert not progress.diverged
    assert all(math.isfinite(value) for step in progress.steps for value in step.losses.values())
    assert not result.module.training


def test_ascent_that_nothing_holds_ruins_the_model_and_says_so(planted: Planted) -> None:
    held, free = Progress(), Progress()
    config = GradAscentConfig(lr=1e-3, batch_size=64)
    GradAscent(config).unlearn(planted.original, planted.request, held)
    assert held.notes["unlearn.stopped_for"] == "the ceiling on the retain loss"
    assert held.notes["ruined"] is False
    GradAscent(config.model_copy(update={"retain_ceiling": None})).unlearn(planted.original, planted.request, free)
    assert free.notes["ruined"] is True or free.diverged
