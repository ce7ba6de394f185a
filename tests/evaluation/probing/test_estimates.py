"""AUROC and accuracy with their intervals, against scikit-learn, DeLong's variance and simulated truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import accuracy_score, roc_auc_score
from statsmodels.stats.proportion import proportion_confint

from genrec_unlearn_bench.evaluation.probing.probes import SplitScores, accuracy, auroc, difference
from tests.evaluation.probing.worlds import answers

NADEAU = 0.375


def drawn(rng: np.random.Generator, size: int = 80, gap: float = 0.5) -> SplitScores:
    labels = np.arange(2 * size) < size
    # Rounded: ties.
    return answers(np.round(rng.normal(size=2 * size) + gap * (labels - 0.5), 1), labels)


def test_values_are_means_of_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    tests = [drawn(rng) for _ in range(3)]
    ranked = np.mean([roc_auc_score(test.labels, test.scores) for test in tests])
    right = np.mean([accuracy_score(test.labels, test.scores > 0) for test in tests])
    assert auroc(tests, NADEAU).value == pytest.approx(ranked, abs=1e-12)
    assert accuracy(tests, NADEAU).value == pytest.approx(right, abs=1e-12)


def test_one_division_of_single_items_has_delongs_variance() -> None:
    test = drawn(np.random.default_rng(1))
    above, below = test.scores[test.labels], test.scores[~test.labels]
    wins = (above[:, None] > below).astype(float) + 0.5 * (above[:, None] == below)
    expected = wins.mean(1).var(ddof=1) / len(above) + wins.mean(0).var(ddof=1) / len(below)
    assert auroc([test], NADEAU).error == pytest.approx(np.sqrt(expected), rel=1e-6)


def test_many_items_give_wilsons_interval_of_an_accuracy() -> None:
    labels = np.arange(4000) < 2000
    scores = np.where(np.arange(4000) % 5 == 0, -1.0, 1.0) * np.where(labels, 1, -1)
    found = accuracy([answers(scores, labels)], NADEAU)
    assert (found.low, found.high) == pytest.approx(proportion_confint(3200, 4000, method="wilson"), abs=1e-4)


def test_repeating_each_items_example_tells_nothing_new() -> None:
    test = drawn(np.random.default_rng(2), size=30)
    repeated = SplitScores(*(np.repeat(part, 10) for part in (test.scores, test.labels, test.items)))
    once, ten = auroc([test], NADEAU), auroc([repeated], NADEAU)
    assert ten.error == pytest.approx(once.error, rel=1e-6)
    assert ten.high - ten.low == pytest.approx(once.high - once.low, rel=1e-3)


def test_divisions_that_overlap_shrink_the_error_as_nadeau_and_bengio_say() -> None:
    test = drawn(np.random.default_rng(3))
    one, five = auroc([test], NADEAU), auroc([test] * 5, NADEAU)
    assert five.error / one.error == pytest.approx(np.sqrt(0.375 + 0.625 / 5))


@pytest.mark.parametrize("flipped", [False, True])
def test_a_perfect_probe_keeps_a_width(flipped: bool) -> None:
    labels = np.arange(40) < 20
    scores = np.where(labels != flipped, 1.0, -1.0) + np.linspace(0, 0.1, 40)
    for found in (auroc([answers(scores, labels)], NADEAU), accuracy([answers(scores, labels)], NADEAU)):
        assert found.value == (0.0 if flipped else 1.0)
        assert 0.05 < found.high - found.low < 0.3
        assert 0 <= found.low <= found.value <= found.high <= 1


def test_one_value_for_all_is_chance() -> None:
    found = auroc([answers(np.zeros(40), np.arange(40) < 20)], NADEAU)
    assert found.value == 0.5
    assert found.low < 0.5 < found.high


@pytest.mark.parametrize(("gap", "spread"), [(0.0, 1.0), (1.2, 1.0), (3.5, 0.5), (1.2, 0.0)])
def test_intervals_cover_the_truth_of_clustered_scores(gap: float, spread: float) -> None:
    # Examples of one item share an effect of its own. Intervals that take them for independent cover 65 % at spread 1.
    rng = np.random.default_rng(4)
    truth = norm.cdf(gap / np.sqrt(2 * (1 + spread**2)))
    covered = []
    for _ in range(400):
        items = np.concatenate([rng.integers(0, 30, 100), 30 + rng.integers(0, 40, 100)])
        labels = np.arange(200) < 100
        scores = gap * labels + spread * rng.normal(size=70)[items] + rng.normal(size=200)
        found = auroc([answers(scores, labels, items)], NADEAU)
        covered.append(found.low <= truth <= found.high)
    assert 0.925 <= np.mean(covered) <= 0.99


def test_the_interval_of_a_difference_holds_it() -> None:
    rng = np.random.default_rng(5)
    own, other = accuracy([drawn(rng, gap=2)], NADEAU), accuracy([drawn(rng, gap=0)], NADEAU)
    low, high = difference(own, other).interval
    assert low < own.value - other.value < high
    assert high - low > max(own.high - own.low, other.high - other.low)
