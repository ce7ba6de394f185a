"""The Kolmogorov-Smirnov test against scipy, and what its interval and its p-value promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from genrec_unlearn_bench.evaluation.forget_quality.distance import distance, p_value


@pytest.mark.parametrize("decimals", [8, 1], ids=["distinct", "tied"])
def test_it_is_scipys(decimals: int) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.normal(0, 1, 400).round(decimals), generator.normal(0.2, 1, 400).round(decimals)
    expected = ks_2samp(first, second)
    found = distance(first, second)
    assert (found.d, found.p, found.n) == (expected.statistic, expected.pvalue, 400)
    assert p_value(first, second) == expected.pvalue
    assert found.low <= found.d <= found.high


def test_a_model_is_at_no_distance_from_itself() -> None:
    values = np.random.default_rng(0).normal(size=400)
    found = distance(values, values)
    assert (found.d, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


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
        found = distance(common + own * generator.normal(size=150), common + own * generator.normal(size=150) + shift)
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
