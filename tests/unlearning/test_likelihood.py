"""Means, sums and level distributions against sums written out, ragged targets included."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy

from genrec_unlearn_bench.backbones.recommender import SidVocabulary, StepOutput
from genrec_unlearn_bench.unlearning.likelihood import (
    level_kl,
    level_log_probs,
    npo_loss,
    sequence_nll,
    target_lengths,
    token_nll,
)

VOCABULARY = SidVocabulary((4, 6))


def output(*, ragged: bool = False, seed: int = 0) -> StepOutput:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 2, VOCABULARY.size, generator=generator)
    labels = torch.tensor([[3, 8], [4, 9], [5, 7]])
    mask = torch.tensor([[True, True], [True, False], [True, True]]) if ragged else None
    return StepOutput(logits, labels, (), mask)


def test_means_and_sums_count_real_tokens() -> None:
    for ragged in (False, True):
        found = output(ragged=ragged)
        log_probs = found.logits.log_softmax(-1)
        terms = {
            (r, level): -float(log_probs[r, level, found.labels[r, level]]) for r in range(3) for level in range(2)
        }
        if ragged:
            del terms[1, 1]
        assert np.isclose(float(token_nll(found)), np.mean(list(terms.values())))
        sums = [sum(value for (row, _), value in terms.items() if row == r) for r in range(3)]
        np.testing.assert_allclose(sequence_nll(found).numpy(), sums, rtol=1e-6)
        assert target_lengths(found).tolist() == ([2, 1, 2] if ragged else [2, 2, 2])


def test_levels_are_normalised_over_their_own_codes() -> None:
    found = level_log_probs(output(), VOCABULARY)
    assert found.shape == (3, 2, 6)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones(3, 2))
    assert (found[:, 0, 4:] == -torch.inf).all()
    first = output().logits[:, 0, 3:7].log_softmax(-1)
    torch.testing.assert_close(found[:, 0, :4], first)


def test_kl_is_scipys_and_its_gradient_is_finite() -> None:
    teacher, student = (level_log_probs(output(seed=seed), VOCABULARY) for seed in (0, 1))
    p, q = teacher.exp().numpy(), student.exp().numpy()
    each = np.asarray([[entropy(p[r, k, :n], q[r, k, :n]) for k, n in enumerate((4, 6))] for r in range(3)])
    assert np.isclose(float(level_kl(teacher, student)), each.mean(), rtol=1e-5)
    mask = output(ragged=True).mask
    assert mask is not None
    assert np.isclose(float(level_kl(teacher, student, mask=mask)), each[mask.numpy()].mean(), rtol=1e-5)
    assert float(level_kl(teacher, teacher)) == 0.0
    one = output(seed=1)
    one.logits.requires_grad_()
    level_kl(teacher, level_log_probs(one, VOCABULARY)).backward()  # type: ignore[no-untyped-call]
    assert one.logits.grad is not None
    assert bool(torch.isfinite(one.logits.grad).all())


def test_npo_is_its_formula_on_sequence_sums() -> None:
    nll, reference = torch.tensor([3.0, 9.0]), torch.tensor([2.0, 10.0])
    by_hand = [-2 / 0.5 * math.log(1 / (1 + math.exp(0.5 * -gap))) for gap in (1.0, -1.0)]
    assert float(npo_loss(nll, reference, 0.5)) == pytest.approx(sum(by_hand) / 2, rel=1e-6)


def test_it_starts_at_two_log_two_over_beta_and_with_the_gradient_of_ascent() -> None:
    nll = torch.tensor([4.0, 7.0], requires_grad=True)
    loss = npo_loss(nll, nll.detach().clone(), 0.1)
    assert float(loss.detach()) == pytest.approx(2 * math.log(2) / 0.1)
    loss.backward()
    assert nll.grad is not None
    assert nll.grad.tolist() == pytest.approx([-0.5, -0.5])


def test_its_gradient_fades_where_an_answer_is_unlikely_already() -> None:
    nll = torch.tensor([0.0, 100.0], requires_grad=True)
    npo_loss(nll, torch.zeros(2), 1.0).backward()
    assert nll.grad is not None
    assert nll.grad[0].item() == pytest.approx(-0.5)
    assert abs(nll.grad[1].item()) < 1e-6
