"""The attack itself: what it trains, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import ServingRules
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.relearning import attack
from genrec_unlearn_bench.evaluation.relearning.attack import (
    AttackSet,
    attack_set,
    measure_attack,
    permitted,
    run_attack,
    split_for_attacks,
)
from genrec_unlearn_bench.evaluation.relearning.measurement import START, Attack, Relearning, RelearningConfig
from genrec_unlearn_bench.pipeline.request import changed
from genrec_unlearn_bench.progress import Progress
from tests.evaluation.relearning import world

pytestmark = pytest.mark.slow

CONFIG = RelearningConfig(steps=(0, 4, 8, 12), lr=1e-3)


def _data(which: Attack, config: RelearningConfig = CONFIG) -> AttackSet:
    return attack_set(which, split_for_attacks(world.split(), 0), config.batch_size, 0)


def _attacked(model: T5Recommender, config: RelearningConfig) -> None:
    data = _data(Attack.MIXED, config)
    run_attack(model, data, config, config.steps[1:], list, 0, Progress(), label="mixed")


def test_the_model_under_attack_and_the_generators_stay_as_they_are() -> None:
    model = world.trained(on_concept=True)
    before = [parameter.clone() for parameter in model.module.parameters()]
    torch.manual_seed(5)
    state = torch.get_rng_state()
    world.attacked(model, "mixed/served")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one, two) for one, two in zip(before, model.module.parameters(), strict=True))


def test_no_batch_that_reaches_the_model_holds_anything_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, model, seen = split_for_attacks(world.split(), 0), world.hidden(), []
    forward = T5Recommender.forward

    def spy(self: T5Recommender, histories: Histories, targets: Any, **options: Any) -> Any:
        seen.append((histories, targets))
        return forward(self, histories, targets, **options)

    monkeypatch.setattr(T5Recommender, "forward", spy)
    for which in ("mixed", "forget-100", "benign"):
        world.attacked(model, f"{which}/served")
    assert len(seen) == 3 * world.CONFIG.steps[-1]
    for histories, targets in seen:
        assert parts.users[histories.users].all()
        assert not parts.items[targets].any()
        assert not parts.items[histories.items[histories.items >= 0]].any()


def test_step_0_is_read_once_and_not_decoded_by_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = world.subject(world.trained(on_concept=True))
    calls = []
    seen = attack.held_out_hits
    monkeypatch.setattr(attack, "held_out_hits", lambda *args: calls.append(args) or seen(*args))
    found = measure_attack(subject, "mixed/served", world.CONFIG, Progress())
    assert len(calls) == 2 * (len(world.CONFIG.steps) - 1)
    assert np.array_equal(found.samples["train"][0], subject.pass_arrays[START.name]["served.train"])


def test_what_may_not_be_served_is_not_attacked_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    original, marked = world.trained(on_concept=True), world.concept()
    almost = marked.copy()
    almost[np.flatnonzero(split_for_attacks(world.split(), 0).items)[0]] = False
    steps: list[int] = []
    monkeypatch.setattr(attack, "run_attack", lambda *_, **options: steps.append(1) or run_attack(*_, **options))
    rates = []
    for blocked in (marked, almost):
        found = world.attacked(original.with_serving(ServingRules(blocked=blocked)), "forget-100/served")
        rates.append(found["forget-100/served"].samples["train"].mean(axis=1).tolist())
    assert rates[0] == [0.0, 0.0, 0.0]
    assert len(steps) == 1
    assert min(rates[1]) > 0


def test_attacks_longer_than_their_data_end_early_or_do_not_begin() -> None:
    config = Relearning().config("small")
    assert permitted(_data(Attack.BENIGN), config) == config.steps
    assert permitted(_data(Attack.FORGET_100), config) == (0, 50, 100, 200)
    assert permitted(_data(Attack.FORGET_1), config) == (0, 50, 100)
    strict = config.model_copy(update={"passes": 20.0})
    with pytest.raises(NotMeasurable, match="50 steps are 50 passes over its 2 concept interactions, and 20 are"):
        permitted(_data(Attack.FORGET_1), strict)


def test_the_steps_beyond_are_said_to_be_beyond() -> None:
    config = RelearningConfig(steps=(0, 2, 4, 200), lr=1e-3)
    found = world.attacked(world.trained(on_concept=True), "forget-1/served", config=config)["forget-1/served"]
    assert found.curve is not None
    rows = found.curve[found.curve["part"] == "train"]
    assert rows["passes"].tolist() == [0, 2, 4, 200]
    assert rows["hr@10"].isna().tolist() == [False, False, False, True]


def test_an_attack_that_blows_up_is_no_number() -> None:
    model = world.trained(on_concept=True).clone()
    subject = world.subject(model)
    with torch.no_grad():
        model.model.shared.weight[5] = torch.nan
    progress = Progress()
    with pytest.raises(NotMeasurable, match="not finite at step 0"):
        measure_attack(subject, "mixed/served", CONFIG, progress)
    assert not progress.diverged


def _causal() -> tuple[CausalRecommender, Subject]:
    network = NetworkShape(hidden=24, ffn=32, layers=2, heads=4, groups=2)
    model = CausalRecommender.fresh(CausalShape(network=network, history_limit=2), world.table(), seed=0)
    return model, world.subject(model)


@pytest.mark.parametrize("adapters", [False, True])
def test_causal_models_are_attacked_whole_or_through_adapters(adapters: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, subject = _causal()
    trained: list[int] = []
    of = torch.optim.AdamW.__init__

    def spy(self: Any, params: Any, **options: Any) -> None:
        trained.append(sum(parameter.numel() for parameter in params))
        of(self, params, **options)

    monkeypatch.setattr(torch.optim.AdamW, "__init__", spy)
    config = RelearningConfig(steps=(0, 5), adapters=adapters, adapter_rank=4, adapter_lr=0.05, lr=0.05)
    found = measure_attack(subject, "forget-100/served", config, Progress())
    every = sum(parameter.numel() for parameter in model.module.parameters())
    assert (trained == [every]) == (not adapters)
    assert trained[0] <= every
    # A model that knew nothing now ranks otherwise: adapters are worked in when it decodes.
    assert not np.array_equal(found.samples["train"][0], found.samples["train"][1])
    assert not any("lora" in name for name, _ in model.module.named_parameters())


def test_a_step_in_parts_is_the_same_step() -> None:
    base = RelearningConfig(steps=(0, 3), lr=1e-3)
    models = []
    for at_once in (None, 7):
        model = T5Recommender.fresh(world.SHAPE, world.table(), seed=3)
        _attacked(model, base.model_copy(update={"rows_at_once": at_once}))
        models.append(model)
    for one, two in zip(*(model.module.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, two, atol=2e-4, rtol=0)


def test_interaction_requests_are_attacked_too() -> None:
    subject = world.subject(world.trained(on_concept=True), world.split(ConceptKind.INTERACTION))
    found = measure_attack(subject, "mixed/served", world.CONFIG, Progress())
    assert found.samples["test"].shape == (3, 0)
    assert found.samples["train"].shape[1] == len(split_for_attacks(subject.split, 0).train)


def test_steps_have_to_rise_from_0() -> None:
    for steps in ([5, 10], [0], [0, 10, 10]):
        with pytest.raises(ConfigError, match="steps begin with 0"):
            changed(Relearning().config("small"), {"steps": steps}, where="--set-measure relearning")


def test_paper_scale_is_what_the_protocol_says() -> None:
    for scale in ("small", "paper", "official"):
        config = Relearning().config(scale)
        assert config.steps == (0, 50, 100, 200, 500, 1000, 2000)
        assert (config.lr, config.adapter_lr, config.adapter_rank) == (1e-4, 1e-5, 16)
        assert config.adapters == (scale != "small")
