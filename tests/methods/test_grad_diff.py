from __future__ import annotations

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import EMPTY
from genrec_unlearn_bench.methods import grad_diff
from genrec_unlearn_bench.methods.grad_diff import GradDiff
from genrec_unlearn_bench.unlearning.likelihood import level_log_probs, token_nll
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig, retain_term
from tests.backbones.p5sid.models import recommender as tree_recommender
from tests.methods.steps import batch_of, caught, gradient_of
from tests.methods.test_trees import request as tree_request
from tests.unlearning.losses.test_suppression import setting


def test_its_gradient_is_gamma_of_ascent_and_alpha_of_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    at = caught(monkeypatch, grad_diff, GradDiff(WeightedConfig(gamma=0.3, alpha=2.0)), model, request)
    batch = batch_of(request)
    found = at.gradient(batch)
    forget, retain = (
        gradient_of(at.model, lambda m, part=part: token_nll(m.forward(part.histories(4), part.targets)))
        for part in (batch.forget, batch.retain)
    )
    torch.testing.assert_close(found, -0.3 * forget + 2.0 * retain, rtol=1e-3, atol=1e-6)
    assert set(at.terms) == {"forget_nll", "retain"}


def test_the_kl_is_nothing_before_the_first_step_and_has_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to rounding: passes with and without gradients take different kernels."""
    model, request = setting()
    at = caught(monkeypatch, grad_diff, GradDiff(WeightedConfig(gamma=0.0, retain_loss="kl")), model, request)
    found = at.gradient(batch_of(request))
    assert at.terms["retain"] == pytest.approx(0.0, abs=1e-7)
    assert float(found.norm()) < 1e-5


def test_the_kl_is_from_the_original_to_the_student_over_legal_codes() -> None:
    model, request = setting()
    student = model.clone()
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter.mul_(1.2)
    retain = request.train.retain.subset(np.arange(8))
    found = float(retain_term(student, model, retain, "kl").detach())
    ours, theirs = (
        level_log_probs(m.forward(retain.histories(4), retain.targets), m.vocabulary).detach() for m in (student, model)
    )
    by_hand, reverse = 0.0, 0.0
    for level, size in enumerate(model.vocabulary.level_sizes):
        p, q = theirs[:, level, :size], ours[:, level, :size]
        by_hand += float((p.exp() * (p - q)).sum(-1).mean()) / 4
        reverse += float((q.exp() * (q - p)).sum(-1).mean()) / 4
    assert found == pytest.approx(by_hand, rel=1e-4)
    assert found != pytest.approx(reverse, rel=1e-2)


def test_tokens_that_no_item_has_there_do_not_count() -> None:
    """Over the full vocabulary this change would be a divergence."""
    model, request = setting()
    student = model.clone()
    with torch.no_grad():
        student.module.get_parameter("lm_head.weight")[EMPTY] += 3.0
    retain = request.train.retain.subset(np.arange(8))
    assert float(retain_term(student, model, retain, "kl").detach()) == pytest.approx(0.0, abs=1e-6)


def test_positions_behind_a_short_target_do_not_count() -> None:
    model, request = tree_recommender("sequential"), tree_request()
    student = model.clone()
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter.mul_(1.2)
    retain = request.train.retain.subset(np.arange(16))
    output = model.forward(retain.histories(student.history_limit), retain.targets)
    assert output.mask is not None
    assert not output.mask.all(), "the trees' targets are of different length"
    ours = level_log_probs(student.forward(retain.histories(student.history_limit), retain.targets), model.vocabulary)
    theirs = level_log_probs(output, model.vocabulary)
    legal = theirs > -torch.inf
    each = (theirs.exp() * (theirs.masked_fill(~legal, 0) - ours.masked_fill(~legal, 0))).sum(-1)
    expected = each[output.mask].mean().detach()
    assert float(expected) != pytest.approx(float(each.mean().detach()), rel=1e-3)
    torch.testing.assert_close(retain_term(student, model, retain, "kl").detach(), expected, rtol=1e-4, atol=1e-6)
