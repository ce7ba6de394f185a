"""Membership scores, their ROC curve with intervals, and PrivLeak."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from genrec_unlearn_bench.evaluation.membership import area, likelihood, min_k, min_k_plus_plus, privleak, rate

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


def labelled(members: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat([1, 0], [len(members), len(others)]), np.concatenate([members, others])


@pytest.mark.parametrize("decimals", [8, 1], ids=["distinct", "tied"])
def test_the_area_is_that_of_scikit_learn(decimals: int) -> None:
    generator = np.random.default_rng(0)
    members, others = (generator.normal(shift, 1, n).round(decimals) for shift, n in ((0.4, 170), (0.0, 61)))
    expected = roc_auc_score(*labelled(members, others))
    assert area(members, others).value == pytest.approx(expected, abs=1e-12)
    even = np.zeros_like(members), np.zeros_like(others)
    assert privleak((members, others), even).value == pytest.approx(100 * (1 - 2 * expected), abs=1e-10)


def test_the_interval_is_delongs() -> None:
    """The example that the package pauc shows: AUC .708, 95 % interval .378 to 1.000."""
    labels = np.array([0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1])
    scores = np.array([0.1, 0.35, 0.24, 0.8, 0.2, 0.85, 0.13, 0.85, 0.74, 0.58, 0.71, 0.25])
    found = area(scores[labels == 1], scores[labels == 0])
    assert [round(part, 3) for part in (found.value, found.low, found.high)] == [0.708, 0.378, 1.0]


def test_the_variance_is_that_of_the_structural_components() -> None:
    """DeLong et al. 1988, from every pair, without ranks."""
    generator = np.random.default_rng(3)
    members, others = generator.normal(0.5, 1, 40).round(1), generator.normal(0, 1, 25).round(1)
    grid = np.array([[1.0 if x > y else 0.5 if x == y else 0.0 for y in others] for x in members])
    variance = grid.mean(axis=1).var(ddof=1) / 40 + grid.mean(axis=0).var(ddof=1) / 25
    found = area(members, others)
    assert (found.high - found.low) / 2 == pytest.approx(1.959964 * np.sqrt(variance), rel=1e-6)


def test_delongs_interval_holds_the_area_in_95_of_100_cases() -> None:
    generator = np.random.default_rng(1)
    truth = norm.cdf(0.5 / np.sqrt(2))
    held = [
        found.low <= truth <= found.high
        for found in (area(generator.normal(0.5, 1, 300), generator.normal(0, 1, 150)) for _ in range(400))
    ]
    assert 0.92 <= np.mean(held) <= 0.98


@pytest.mark.parametrize("decimals", [8, 1], ids=["distinct", "tied"])
@pytest.mark.parametrize("n", [100, 250, 700])
def test_the_rate_is_the_highest_on_the_curve_at_one_per_cent(decimals: int, n: int) -> None:
    generator = np.random.default_rng(n)
    members, others = generator.normal(1.5, 1, 300).round(decimals), generator.normal(0, 1, n).round(decimals)
    false, true, _ = roc_curve(*labelled(members, others), drop_intermediate=False)
    assert rate(members, others).value == pytest.approx(true[false <= 0.01].max(), abs=1e-12)


@pytest.mark.parametrize(("n", "shift"), [(190, 0.0), (190, 2.0), (1000, 0.0), (1000, 2.0)])
def test_the_rates_interval_holds_the_true_rate(n: int, shift: float) -> None:
    """In at least 95 of 100 cases; what a bootstrap gives at 190 non-members holds it in 86 to 90."""
    generator = np.random.default_rng(n)
    truth = norm.sf(norm.isf(0.01) - shift)
    found = [rate(generator.normal(shift, 1, 800), generator.normal(0, 1, n)) for _ in range(150)]
    assert np.mean([each.low <= truth <= each.high for each in found]) >= 0.94
    assert all(each.low <= each.value <= each.high for each in found)


def test_a_threshold_that_nobody_saw_leaves_the_lower_end_open() -> None:
    perfect = np.ones(500)
    assert rate(perfect, np.zeros(200)).low == 0.0
    assert rate(perfect, np.zeros(400)).low > 0.95
    assert rate(perfect, np.zeros(400)).high == 1.0


def pair(shift: float, seed: int, m: int = 300, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(shift, 1, m), generator.normal(0, 1, n)


def test_it_is_the_formula_of_muse() -> None:
    own, retrained = pair(1.0, 0), pair(0.1, 1)
    un, re = area(*own).value, area(*retrained).value
    assert privleak(own, retrained).value == pytest.approx(100 * ((1 - un) - (1 - re)) / (1 - re))


def test_the_sign_says_whether_too_little_or_too_much_was_unlearned() -> None:
    retrained = pair(0.0, 1)
    little, much = privleak(pair(1.5, 0), retrained), privleak(pair(-1.5, 0), retrained)
    assert little.high < 0 < much.low
    assert privleak((np.ones(30), np.zeros(30)), pair(0.0, 1, 30, 30)).value == pytest.approx(-100)


def test_a_model_beside_itself_is_at_zero_whatever_is_drawn() -> None:
    same = pair(0.7, 0)
    found = privleak(same, same)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_examples_are_drawn_together() -> None:
    """What both models share cancels, so that the interval is much narrower than with examples of their own."""
    generator = np.random.default_rng(0)
    own = pair(0.5, 0)
    near = tuple(side + generator.normal(0, 0.05, len(side)) for side in own)
    apart = privleak(own, pair(0.5, 9))
    together = privleak(own, (near[0], near[1]))
    assert together.high - together.low < (apart.high - apart.low) / 4


@pytest.mark.slow
def test_the_interval_holds_the_truth() -> None:
    """Both models as good as each other: 0."""
    held = []
    for seed in range(60):
        own = pair(0.5, seed, 150, 100)
        generator = np.random.default_rng(1000 + seed)
        other = tuple(side + generator.normal(0, 0.5, len(side)) for side in own)
        noisy = tuple(side + generator.normal(0, 0.5, len(side)) for side in own)
        found = privleak((noisy[0], noisy[1]), (other[0], other[1]))
        held.append(found.low <= 0 <= found.high)
    assert np.mean(held) >= 0.85
