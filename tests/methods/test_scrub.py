from __future__ import annotations

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import EMPTY
from genrec_unlearn_bench.methods import scrub
from genrec_unlearn_bench.methods.scrub import Scrub, ScrubConfig, against_teacher, schedule
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.likelihood import level_log_probs, token_nll
from tests.backbones.p5sid.models import recommender as tree_recommender
from tests.methods.steps import Caught, batch_of, caught, gradient_of, ragged_batch
from tests.methods.test_trees import request as tree_request
from tests.unlearning.losses.test_suppression import setting

SMALL = ScrubConfig(lr=1e-2, batch_size=16, epochs=3, max_epochs=2, dropout=False)


def moved(model, by: float = 0.3):
    student = model.clone()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter.add_(by * parameter.std() * torch.randn(parameter.shape, generator=generator))
    return student


def test_max_epochs_open_the_first_rounds_and_the_last_ones_are_min_epochs_alone() -> None:
    def kinds(**fields: int) -> str:
        return " ".join(phase.kind for phase in schedule(ScrubConfig(**fields)))

    assert kinds(epochs=4, max_epochs=2) == "max min max min min min"
    assert kinds(epochs=2, max_epochs=1, min_passes=2) == "max min min min min"
    assert kinds(epochs=1, max_epochs=3) == "max min"
    opens = [phase.opens for phase in schedule(ScrubConfig(epochs=2, max_epochs=1, min_passes=2))]
    assert opens == [True, False, False, True, False]


def test_training_follows_the_schedule() -> None:
    model, request = setting()
    progress = Progress()
    Scrub(SMALL).unlearn(model, request, progress)
    seen = ["max" if "forget_kl" in step.losses else "min" for step in progress.steps]
    steps = -(-len(request.train.forget) // 16)
    assert seen == [kind for kind in ("max", "min", "max", "min", "min") for _ in range(steps)]
    assert not progress.diverged


def phase(at: Caught, index: int) -> None:
    """Begin the phase of that number."""
    assert at.batches is not None
    for number in range(index + 1):
        next(iter(at.batches(number)))


def test_a_max_step_ascends_the_kl_on_forget_examples_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    at = caught(monkeypatch, scrub, Scrub(SMALL), model, request)
    assert at.epochs == 5
    at.model.module.load_state_dict(moved(model).module.state_dict())
    phase(at, 0)
    batch = batch_of(request)
    found = at.gradient(batch)
    expected = gradient_of(at.model, lambda m: -against_teacher(m, model, batch.forget, 4.0)[1])
    torch.testing.assert_close(found, expected)
    assert set(at.terms) == {"forget_kl"}


def test_a_min_step_descends_kl_and_cross_entropy_on_retain_examples_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    config = SMALL.model_copy(update={"alpha": 0.25, "gamma": 2.0})
    at = caught(monkeypatch, scrub, Scrub(config), model, request)
    at.model.module.load_state_dict(moved(model).module.state_dict())
    phase(at, 1)
    batch = batch_of(request)
    found = at.gradient(batch)
    retain = batch.retain
    kl = gradient_of(at.model, lambda m: against_teacher(m, model, retain, 4.0)[1])
    ce = gradient_of(at.model, lambda m: token_nll(m.forward(retain.histories(4), retain.targets)))
    torch.testing.assert_close(found, 0.25 * kl + 2.0 * ce, rtol=1e-3, atol=1e-6)
    assert set(at.terms) == {"retain", "retain_kl"}


def test_the_square_of_t_keeps_the_size_of_the_gradient() -> None:
    """T² KL_T tends to half the variance of the logits' difference as T grows (Hinton et al. 2015, sec. 2.1); beyond
    T = 100 single precision no longer holds the tiny KL."""
    model, request = setting()
    student, part = moved(model), request.train.forget.subset(np.arange(8))
    output, hot = against_teacher(student, model, part, 50.0)
    by_hand = 0.0
    theirs = model.forward(part.histories(4), part.targets).logits.detach().double()
    ours = output.logits.detach().double()
    for level, (first, size) in enumerate(zip(model.vocabulary.offsets, model.vocabulary.level_sizes, strict=True)):
        gap = (ours - theirs)[:, level, first : first + size]
        by_hand += float(gap.var(-1, unbiased=False).mean()) / 2 / 4
    assert float(hot.detach()) == pytest.approx(by_hand, rel=3e-2)


def test_at_temperature_one_it_is_the_kl() -> None:
    model, request = setting()
    student, part = moved(model), request.train.forget.subset(np.arange(8))
    _, found = against_teacher(student, model, part, 1.0)
    p, q = (level_log_probs(m.forward(part.histories(4), part.targets), m.vocabulary) for m in (model, student))
    legal = p > -torch.inf
    expected = (p.exp() * (p.masked_fill(~legal, 0) - q.masked_fill(~legal, 0))).sum(-1).mean()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_tokens_that_are_legal_nowhere_get_no_gradient_and_do_not_count() -> None:
    model, request = setting()
    student, part = moved(model), request.train.forget.subset(np.arange(8))
    output, before = against_teacher(student, model, part, 4.0)
    output.logits.retain_grad()
    before.backward()  # type: ignore[no-untyped-call]
    assert output.logits.grad is not None
    for level, (first, size) in enumerate(zip(model.vocabulary.offsets, model.vocabulary.level_sizes, strict=True)):
        slope = output.logits.grad[:, level].clone()
        assert (slope[:, first : first + size] != 0).any()
        slope[:, first : first + size] = 0
        assert (slope == 0).all()
    with torch.no_grad():
        student.module.get_parameter("lm_head.weight")[EMPTY] += 5.0
    assert float(against_teacher(student, model, part, 4.0)[1].detach()) == pytest.approx(
        float(before.detach()), rel=1e-5
    )


def test_positions_behind_a_short_target_get_no_gradient() -> None:
    model, request = tree_recommender("sequential"), tree_request()
    student, part = moved(model), ragged_batch(model, request).forget
    output, value = against_teacher(student, model, part, 4.0)
    assert output.mask is not None
    assert not output.mask.all()
    output.logits.retain_grad()
    value.backward()  # type: ignore[no-untyped-call]
    assert output.logits.grad is not None
    assert (output.logits.grad[~output.mask] == 0).all()
    assert (output.logits.grad[output.mask] != 0).any(-1).all()


def test_it_starts_where_the_kl_has_no_gradient_and_dropout_takes_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why dropout is on by default."""
    model, request = setting()
    at = caught(monkeypatch, scrub, Scrub(SMALL), model, request)
    phase(at, 0)
    batch = batch_of(request)
    still = at.gradient(batch)
    assert float(still.norm()) < 1e-4
    at.model.module.train()
    at.model.module.zero_grad(set_to_none=True)
    at.step(batch)
    norm = torch.nn.utils.get_total_norm([p.grad for p in at.model.module.parameters() if p.grad is not None])
    assert float(norm) > 100 * float(still.norm())
    assert ScrubConfig().dropout


def test_rewinding_takes_one_checkpoint_a_round() -> None:
    model, request = setting()
    progress = Progress()
    result = Scrub(SMALL.model_copy(update={"rewind": True})).unlearn(model, request, progress)
    errors = progress.notes["forget_errors"]
    assert isinstance(errors, list)
    assert len(errors) == 3
    chosen = int(str(progress.notes["rewound_to"]))
    forget = request.train.forget
    nll = -float(result.target_log_probs(forget.histories(4), forget.targets).mean())
    assert nll == pytest.approx(errors[chosen], rel=1e-5)
