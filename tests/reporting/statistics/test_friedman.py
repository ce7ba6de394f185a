"""Friedman's test equals scipy's, its pairs Siegel and Castellan's, and what it cannot do it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from genrec_unlearn_bench.reporting.statistics.friedman import friedman
from genrec_unlearn_bench.reporting.statistics.paired import holm
from genrec_unlearn_bench.seeding import numpy_generator
from tests.reporting.statistics.null_worlds import band


def scores(seed: int = 0, blocks: int = 12, methods: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(blocks, methods)) + np.arange(methods) * 0.6


@pytest.mark.parametrize("decimals", [6, 0])
def test_equals_scipy_with_and_without_ties(decimals: int) -> None:
    values = np.round(scores(), decimals)
    found = friedman(values)
    peer = stats.friedmanchisquare(*values.T)
    assert (found.statistic, found.p) == pytest.approx((peer.statistic, peer.pvalue))
    assert found.mean_ranks == pytest.approx(stats.rankdata(-values, axis=1).mean(axis=0))
    assert found.mean_ranks.sum() == pytest.approx(5 * 6 / 2)


def test_pairs_by_the_formula() -> None:
    """Siegel and Castellan 1988, sec. 7.2: z = |R_i - R_j| / sqrt(k (k + 1) / (6 n)), then Holm over all pairs."""
    values = scores(3)
    found = friedman(values)
    upper = np.triu_indices(5, 1)
    gaps = np.abs(np.subtract.outer(found.mean_ranks, found.mean_ranks))[upper]
    expected = holm(2 * stats.norm.sf(gaps / np.sqrt(5 * 6 / (6 * 12))))
    assert found.posthoc[upper] == pytest.approx(expected)
    assert np.array_equal(found.posthoc, found.posthoc.T)
    assert np.array_equal(np.diag(found.posthoc), np.ones(5))


def test_the_largest_is_ranked_first_and_scale_does_not_matter() -> None:
    values = np.tile([0.1, 0.3, 0.2], (10, 1)) * np.arange(1, 11)[:, None]
    found = friedman(values)
    assert found.mean_ranks.tolist() == [3.0, 1.0, 2.0]
    assert friedman(np.exp(values)).p == found.p


def test_nothing_but_ties_is_no_evidence() -> None:
    found = friedman(np.ones((10, 4)))
    assert (found.statistic, found.p) == (0.0, 1.0)
    assert found.mean_ranks.tolist() == [2.5] * 4
    assert np.array_equal(found.posthoc, np.ones((4, 4)))


def test_p_is_never_zero() -> None:
    values = np.tile(np.arange(40.0), (200, 1))
    found = friedman(values)
    assert found.p > 0.0
    assert found.posthoc.min() > 0.0


def test_eight_equal_methods_over_ten_blocks() -> None:
    repeats, generator = 300, numpy_generator(0, "friedman")
    # Tasks differ in level and methods' scores within a task are correlated; ranks see neither.
    level = generator.normal(size=(repeats, 10, 1))
    found = [friedman(block) for block in level + 0.1 * generator.normal(size=(repeats, 10, 8))]
    assert np.mean([row.p <= 0.05 for row in found]) <= band(0.05, repeats)[1]
    assert np.mean([row.posthoc.min() <= 0.05 for row in found]) <= band(0.05, repeats)[1]
