"""The shared loop: what a step may do, when it stops, and what it leaves behind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import load_class, methods
from genrec_unlearn_bench.unlearning.descent import DescentConfig, Phase, backward, descend, planned_steps
from genrec_unlearn_bench.unlearning.likelihood import token_nll
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.sampling import PairedBatch
from tests.planted import Planted
from tests.unlearning.losses.test_suppression import setting

SMALL = DescentConfig(batch_size=16, epochs=2, lr=1e-2)


def ascent(model: Recommender, *, factor: float = -1.0):
    def step(batch: PairedBatch) -> dict[str, Tensor | float]:
        output = model.forward(batch.forget.histories(model.history_limit), batch.forget.targets)
        loss = factor * token_nll(output)
        backward(loss)
        return {"forget": loss}

    return step


def test_an_epoch_sees_every_forget_example_once_beside_as_many_retain_examples() -> None:
    model, request = setting()
    seen: list[int] = []

    def step(batch: PairedBatch) -> dict[str, Tensor | float]:
        assert len(batch.forget) == len(batch.retain)
        np.testing.assert_array_equal(batch.forget.targets, request.train.forget.targets[batch.forget_rows])
        np.testing.assert_array_equal(batch.retain.targets, request.train.retain.targets[batch.retain_rows])
        seen.extend(batch.forget_rows.tolist())
        return {"forget": 0.0}

    descend(model, request, SMALL, step, Progress())
    assert sorted(seen) == sorted(2 * list(range(len(request.train.forget))))


def test_steps_can_be_limited_and_are_counted_ahead() -> None:
    model, request = setting()
    progress = Progress()
    config = SMALL.model_copy(update={"max_steps": 3})
    descend(model, request, config, ascent(model, factor=1.0), progress)
    assert [entry.step for entry in progress.steps] == [0, 1, 2]
    assert planned_steps(config, request) == 3
    assert planned_steps(SMALL, request) == 2 * math.ceil(len(request.train.forget) / 16)


def test_warm_up_rises_and_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    rates = []
    original = torch.optim.AdamW.step

    def recorded(self, *args, **kwargs):
        rates.append(self.param_groups[0]["lr"])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", recorded)
    config = SMALL.model_copy(update={"warmup": 0.5, "max_steps": 8, "epochs": 4})
    descend(model, request, config, ascent(model, factor=1.0), Progress())
    np.testing.assert_allclose(rates, [0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01, 0.01, 0.01])


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_not_taken_and_is_reported(where: str) -> None:
    model, request = setting()
    progress = Progress()
    taken = []

    def step(batch: PairedBatch) -> dict[str, Tensor | float]:
        taken.append({name: tensor.clone() for name, tensor in model.module.state_dict().items()})
        terms = ascent(model, factor=1.0)(batch)
        if len(taken) < 3:
            return terms
        if where == "gradient":
            next(model.module.parameters()).grad.fill_(torch.nan)
            return terms
        return {"forget": math.nan}

    descend(model, request, SMALL, step, progress)
    assert progress.diverged
    assert progress.notes["unlearn.stopped_at"] == 2
    for name, tensor in model.module.state_dict().items():
        assert (tensor == taken[-1][name]).all(), name
    assert not model.module.training


def test_the_ceiling_puts_back_the_last_weights_below_it(planted: Planted) -> None:
    model = planted.original.clone()
    config = DescentConfig(batch_size=32, epochs=20, lr=3e-3, retain_ceiling=1.5, check_every=4)
    progress = Progress()
    descend(model, planted.request, config, ascent(model), progress)
    assert progress.notes["unlearn.stopped_for"] == "the ceiling on the retain loss"
    valid = planted.request.valid.retain

    def nll(candidate: Recommender) -> float:
        return -float(candidate.target_log_probs(valid.histories(4), valid.targets).mean())

    assert nll(model) <= 1.5 * nll(planted.original)
    again = planted.original.clone()
    steps = progress.notes["unlearn.stopped_at"]
    assert isinstance(steps, int)
    assert steps % 4 == 0
    limit = config.model_copy(update={"retain_ceiling": None, "max_steps": max(steps, 1)})
    descend(again, planted.request, limit, ascent(again), Progress())
    if steps:
        for one, two in zip(model.module.parameters(), again.module.parameters(), strict=True):
            torch.testing.assert_close(one, two)


def test_only_the_chosen_parameters_move() -> None:
    model, request = setting()
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    chosen = dict(model.module.named_parameters())["decoder.block.0.layer.2.DenseReluDense.wo.weight"]
    descend(model, request, SMALL, ascent(model, factor=1.0), Progress(), parameters=[chosen])
    moved = {name for name, tensor in model.module.state_dict().items() if not (tensor == before[name]).all()}
    assert moved == {"decoder.block.0.layer.2.DenseReluDense.wo.weight"}
    assert all(parameter.grad is None for parameter in model.module.parameters())


def test_two_phases_share_an_optimiser_and_the_limit_on_steps() -> None:
    model, request = setting()
    progress, called = Progress(), []
    config = SMALL.model_copy(update={"max_steps": 3})
    optimizer = torch.optim.SGD(model.module.parameters(), lr=1e-3)
    soft = Phase("soft", 1, optimizer, after_step=lambda: called.append(len(called)))
    first = planned_steps(SMALL, request, soft)
    done = descend(model, request, config.model_copy(update={"max_steps": 2}), ascent(model), progress, phase=soft)
    assert done == len(called) == min(2, first)
    rest = descend(model, request, config, ascent(model), progress, phase=Phase("hard", 5, optimizer, done))
    assert rest == 3 - done
    assert [(entry.stage, entry.step) for entry in progress.steps] == [("soft", 0), ("soft", 1), ("hard", 0)]
    assert progress.optimiser_steps == 3
    assert planned_steps(config, request, Phase(steps_before=7)) == 0


def test_a_phase_stops_after_the_step_that_it_refuses_to_follow() -> None:
    model, request = setting()
    progress = Progress()
    phase = Phase("hard", stop=lambda terms: "enough" if len(progress.steps) == 2 else "")
    assert descend(model, request, SMALL, ascent(model, factor=1.0), progress, phase=phase) == 2
    assert progress.notes == {"hard.stopped_at": 2, "hard.stopped_for": "enough"}


def test_ten_passes_are_the_budget_of_every_trained_method() -> None:
    for name, entry in methods().items():
        if entry.kind != "method" or entry.variant_of:
            continue
        config = load_class(entry, UnlearningMethod).Config()  # type: ignore[type-abstract]
        if isinstance(config, DescentConfig):
            # SCRUB counts rounds, of which the first have a pass over forget examples and all one over retain examples.
            extra = config.model_dump()["max_epochs"] if name == "scrub" else 0
            assert config.epochs + extra == 10, name
            assert config.max_steps is None, name
