"""Truth ratios by hand; Kolmogorov-Smirnov distance and Tug-of-War with their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from genrec_unlearn_bench.evaluation.forget_quality import (
    average_gap,
    forget_aggregate,
    interval,
    ks_distance,
    log_truth_ratios,
    p_value,
    retain_aggregate,
    tug_of_war,
)
from genrec_unlearn_bench.evaluation.likelihoods import Scored


def part(log_probs: list[list[float]], wrong: list[list[float]], lengths: list[list[int]]) -> Scored:
    targets = np.array(log_probs)
    nothing = np.zeros_like(targets)
    return Scored(targets, targets < 0, nothing, nothing, np.array(wrong), np.array(lengths))


def test_it_is_the_mean_wrong_likelihood_by_token_over_the_right_one() -> None:
    found = log_truth_ratios(part([[-1.0, -2.0, -3.0]], [[-3.0, -6.0]], [[3, 3]]))
    expected = ((np.exp(-1) + np.exp(-2)) / 2) / np.exp(-2)
    assert np.exp(found) == pytest.approx([expected])
    # The geometric mean of TOFU's code would be another number.
    assert np.exp(found) != pytest.approx([np.exp(-1.5) / np.exp(-2)], rel=0.05)


def test_every_item_counts_the_tokens_it_has() -> None:
    ragged = log_truth_ratios(part([[-1.0, -1.0, 0.0]], [[-2.0, -3.0]], [[2, 3]]))
    assert ragged == pytest.approx([0.0])


def test_items_that_are_not_there_have_no_part_in_the_mean() -> None:
    found = log_truth_ratios(part([[-2.0, -2.0], [-1.0, -1.0]], [[-2.0, np.nan], [np.nan, np.nan]], [[2, 0], [0, 0]]))
    assert found[0] == pytest.approx(1.0)
    assert np.isnan(found[1])


def test_only_the_first_examples_have_wrong_items() -> None:
    assert len(log_truth_ratios(part([[-1.0], [-2.0], [-3.0]], [[-1.0]], [[1]]))) == 1


def test_very_unlikely_targets_do_not_overflow() -> None:
    found = log_truth_ratios(part([[-5000.0]], [[-1.0]], [[1]]))
    assert found == pytest.approx([4999.0])
    assert forget_aggregate(found) == pytest.approx([0.0])
    assert retain_aggregate(found) == pytest.approx([0.0])


def test_aggregates() -> None:
    ratios = np.array([0.25, 1.0, 4.0])
    assert forget_aggregate(np.log(ratios)) == pytest.approx([0.25, 1.0, 0.25])
    assert retain_aggregate(np.log(ratios)) == pytest.approx([0.75, 0.0, 0.0])


@pytest.mark.parametrize("decimals", [8, 1], ids=["distinct", "tied"])
def test_it_is_scipys(decimals: int) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(0, 1, 400).round(decimals), generator.normal(0.2, 1, 400).round(decimals)
    expected = ks_2samp(first, second)
    found, chance = ks_distance(first, second)
    assert (found.value, chance, found.n) == (expected.statistic, expected.pvalue, 400)
    assert p_value(first, second) == expected.pvalue
    assert found.low <= found.value <= found.high


def test_a_model_is_at_no_distance_from_itself() -> None:
    values = np.random.default_rng(0).normal(size=400)
    found, chance = ks_distance(values, values)
    assert (found.value, found.low, found.high, chance) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize("shared", [0.0, 0.9], ids=["independent", "paired"])
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_interval_holds_the_distance(shared: float, shift: float) -> None:
    from scipy.stats import norm

    truth = 2 * norm.cdf(shift / 2) - 1
    generator = np.random.default_rng(1)
    held = []
    for _ in range(40):
        common = generator.normal(size=150) * np.sqrt(shared)
        own = np.sqrt(1 - shared)
        found, _ = ks_distance(
            common + own * generator.normal(size=150), common + own * generator.normal(size=150) + shift
        )
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) >= 0.9


def test_a_p_of_the_same_examples_is_too_high_and_of_others_uniform() -> None:
    generator = np.random.default_rng(2)
    same, other = [], []
    for _ in range(300):
        common = generator.normal(size=200)
        first, second = (common + 0.5 * generator.normal(size=200) for _ in range(2))
        elsewhere = generator.normal(size=200) + 0.5 * generator.normal(size=200)
        same.append(p_value(first, second))
        other.append(p_value(first, elsewhere))
    assert np.mean(np.array(same) < 0.2) < 0.02
    for level in (0.1, 0.3, 0.5, 0.8):
        assert np.mean(np.array(other) < level) == pytest.approx(level, abs=0.09)


def accuracies(run: list[float], retrained: list[float], original: list[float]) -> list[np.ndarray]:
    return [np.array(values) for values in (run, retrained, original)]


def test_by_hand() -> None:
    found = accuracies([0.06, 0.10, 0.08], [0.02, 0.12, 0.08], [0.10, 0.20, 0.10])
    assert float(tug_of_war(*found)) == pytest.approx(0.6 * 0.9 * 1.0)
    assert float(average_gap(*found)) == pytest.approx(0.02)
    # In absolute accuracies the product would hide the difference.
    assert 0.96 * 0.98 > 0.94


def test_the_retrained_model_is_at_one() -> None:
    found = accuracies([0.02, 0.12, 0.08], [0.02, 0.12, 0.08], [0.10, 0.20, 0.10])
    assert float(tug_of_war(*found)) == 1.0
    assert float(average_gap(*found)) == 0.0


def test_two_great_differences_do_not_make_something_good() -> None:
    found = accuracies([0.5, 0.5, 0.1], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1])
    assert float(tug_of_war(*found)) == 0.0


def test_nothing_is_in_proportion_to_an_original_without_hits() -> None:
    assert np.isnan(tug_of_war(*accuracies([0.1, 0.1, 0.1], [0.1, 0.1, 0.1], [0.0, 0.1, 0.1])))


def test_models_are_looked_at_on_the_same_draws() -> None:
    generator = np.random.default_rng(0)
    hits = [np.repeat((generator.random((300, 1)) < 0.3).astype(np.float64), 3, axis=1) for _ in range(3)]
    assert interval(tug_of_war, hits) == (1.0, 1.0)
    assert interval(average_gap, hits) == (0.0, 0.0)


def test_it_holds_what_was_measured_though_samples_lean_away() -> None:
    """As good as the retrained model by number, on other examples: nearly every sample is worse."""
    run, retrained = np.zeros(400), np.zeros(400)
    run[:40], retrained[40:80] = 1.0, 1.0
    hits = [np.stack([run, retrained, np.ones(400)], axis=1) for _ in range(3)]
    for measure, value in ((tug_of_war, 1.0), (average_gap, 0.0)):
        low, high = interval(measure, hits)
        assert low <= value <= high
        assert low < high


def test_the_interval_holds_the_truth() -> None:
    rates = np.array([[0.6, 0.2, 0.7], [0.4, 0.5, 0.5], [0.5, 0.5, 0.6]])
    truth = float(tug_of_war(*rates.T))
    generator = np.random.default_rng(1)
    held = []
    for _ in range(15):
        low, high = interval(tug_of_war, [(generator.random((200, 3)) < rate).astype(np.float64) for rate in rates])
        held.append(low <= truth <= high)
    assert np.mean(held) >= 0.8
