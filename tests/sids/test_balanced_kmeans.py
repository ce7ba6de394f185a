from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.sids.kmeans import balanced_assignment, balanced_clusters


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 5), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_sizes_stay_within_their_bounds(clusters: int, lower: int, spread: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    upper = lower + spread
    count = int(rng.integers(clusters * lower, clusters * upper + 1))
    # One far-off blob: plain k-means would give it one large cluster.
    points = (rng.standard_normal((count, 3)) + 50 * (rng.random((count, 1)) < 0.8)).astype(np.float32)
    labels = balanced_clusters(points, clusters, lower=lower, upper=upper, iterations=5, rng=rng)
    sizes = np.bincount(labels, minlength=clusters)
    assert len(sizes) == clusters
    assert sizes.min() >= lower
    assert sizes.max() <= upper


@pytest.mark.parametrize("seed", range(8))
def test_the_assignment_is_the_cheapest_of_all(seed: int) -> None:
    distances = np.random.default_rng(seed).random((6, 3)).astype(np.float32) ** 3 * 100
    best = min(
        float(distances[np.arange(6), list(labels)].astype(np.float64).sum())
        for labels in product(range(3), repeat=6)
        if all(1 <= size <= 3 for size in np.bincount(labels, minlength=3))
    )
    found = balanced_assignment(distances, lower=1, upper=3)
    assert np.isclose(distances[np.arange(6), found].astype(np.float64).sum(), best, rtol=1e-6)


def test_planted_groups_are_found() -> None:
    rng = np.random.default_rng(0)
    own = rng.permutation(np.repeat(np.arange(4), 16))
    points = (10 * np.eye(4)[own] + 0.1 * rng.standard_normal((64, 4))).astype(np.float32)
    labels = balanced_clusters(points, 4, lower=8, upper=32, iterations=10, rng=rng)
    assert len(np.unique(own * 4 + labels)) == 4


def test_the_seed_decides() -> None:
    points = np.random.default_rng(1).standard_normal((50, 5)).astype(np.float32)
    one, two = (
        balanced_clusters(points, 5, lower=5, upper=20, iterations=5, rng=np.random.default_rng(3)) for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)


def test_impossible_sizes_are_refused() -> None:
    points = np.zeros((10, 2), dtype=np.float32)
    for lower, upper in ((6, 9), (1, 4)):
        with pytest.raises(ValueError, match="do not fit"):
            balanced_clusters(points, 2, lower=lower, upper=upper, iterations=2, rng=np.random.default_rng(0))
