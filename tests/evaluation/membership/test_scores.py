"""Membership scores of single examples, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.membership.scores import likelihood, min_k, min_k_plus_plus

LOG_PROBS = np.array([[-1.0, -3.0, -2.0, -4.0], [-1.0, -5.0, 0.0, 0.0]])
REAL = np.array([[True] * 4, [True, True, False, False]])


def test_the_loss_is_the_mean_over_the_tokens_a_target_has() -> None:
    # A sum would be -10 and -6, and would take the shorter target for the member.
    assert likelihood(LOG_PROBS, REAL) == pytest.approx([-2.5, -3.0])


def test_short_targets_gain_nothing_by_their_length() -> None:
    same = np.full((2, 4), -2.0)
    assert likelihood(same * REAL, REAL) == pytest.approx([-2.0, -2.0])


@pytest.mark.parametrize(("share", "expected"), [(0.2, [-4.0, -5.0]), (0.5, [-3.5, -5.0]), (1.0, [-2.5, -3.0])])
def test_min_k_is_the_mean_of_the_least_likely_tokens(share: float, expected: list[float]) -> None:
    assert min_k(LOG_PROBS, REAL, share) == pytest.approx(expected)


def test_min_k_never_takes_the_padding_behind_a_short_target() -> None:
    assert min_k(np.array([[2.0, 3.0, 0.0]]), np.array([[True, True, False]]), 0.2) == pytest.approx([2.0])


def test_min_k_plus_plus_by_hand() -> None:
    p = np.array([0.5, 0.25, 0.25])
    mean = float(p @ np.log(p))
    sd = float(np.sqrt(p @ (np.log(p) - mean) ** 2))
    # The least likely token in log-probability, and the one that stands lowest in its own distribution, differ.
    log_probs = np.array([[np.log(0.25), -6.0]])
    found = min_k_plus_plus(log_probs, np.array([[mean, -6.5]]), np.array([[sd, 2.0]]), np.ones((1, 2), bool), 0.2)
    assert found == pytest.approx([(np.log(0.25) - mean) / sd])
    assert found == pytest.approx([-1.0])


def test_min_k_plus_plus_is_finite_where_the_model_is_sure() -> None:
    sure = min_k_plus_plus(np.array([[-0.001]]), np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1), bool), 0.2)
    assert sure == pytest.approx([-1.0])  # variance 1e-6: a scale of 1e-3
