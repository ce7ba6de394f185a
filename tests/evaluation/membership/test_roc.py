"""AUC and true-positive rate agree with scikit-learn; their intervals hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from genrec_unlearn_bench.evaluation.membership.roc import area, kernel, rate


def labelled(members: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat([1, 0], [len(members), len(others)]), np.concatenate([members, others])


@pytest.mark.parametrize("decimals", [8, 1], ids=["distinct", "tied"])
def test_the_area_is_that_of_scikit_learn(decimals: int) -> None:
    generator = np.random.default_rng(0)
    members, others = (generator.normal(shift, 1, n).round(decimals) for shift, n in ((0.4, 170), (0.0, 61)))
    expected = roc_auc_score(*labelled(members, others))
    assert area(members, others).value == pytest.approx(expected, abs=1e-12)
    assert kernel(members, others).mean() == pytest.approx(expected, abs=1e-12)


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


def test_too_few_non_members_have_no_rate() -> None:
    with pytest.raises(ValueError, match="99"):
        rate(np.ones(200), np.zeros(99))
