from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.kmeans import balanced_assignment, balanced_clusters, kmeans, project, worst_quantised
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.table import nearest
from tests.sids.planted import planted, purity


def fit(points: np.ndarray, codes: int, seed: int = 0) -> np.ndarray:
    return kmeans(points.astype(np.float32), codes, iterations=50, rng=np.random.default_rng(seed), scale=1.0)


def test_it_is_as_good_as_scikit_learn() -> None:
    from sklearn.cluster import KMeans

    points = np.random.default_rng(0).standard_normal((800, 6)).astype(np.float32)
    ours = fit(points, 32)
    codes = nearest(points.astype(np.float64), ours.astype(np.float64))
    inertia = ((points - ours[codes]) ** 2).sum()
    peers = [KMeans(32, n_init=1, max_iter=50, random_state=seed).fit(points).inertia_ for seed in range(4)]
    assert inertia <= 1.03 * max(peers)


def test_centres_are_the_means_of_their_points() -> None:
    points = np.random.default_rng(2).standard_normal((300, 4)).astype(np.float32)
    words = fit(points, 8)
    codes = nearest(points.astype(np.float64), words.astype(np.float64))
    for code in range(8):
        np.testing.assert_allclose(words[code], points[codes == code].mean(0), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_no_codeword_is_left_empty_even_with_heavy_duplicates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = np.concatenate([np.repeat(rng.standard_normal((5, 3)), 200, axis=0), rng.standard_normal((40, 3)) * 20])
    words = fit(points, 32, seed)
    used = np.unique(nearest(points.astype(np.float32).astype(np.float64), words.astype(np.float64)))
    assert len(used) == 32


def test_codewords_that_nothing_is_near_are_moved_to_the_worst_quantised_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(4)
    centres = rng.standard_normal((8, 3)) * 10
    points = (centres[np.arange(240) % 8] + rng.standard_normal((240, 3)) * 0.1).astype(np.float32)

    def far(data: np.ndarray, codes: int, random_state: int) -> tuple[np.ndarray, None]:
        return np.concatenate([data[:1], np.full((codes - 1, 3), 1e3)]).astype(np.float32), None

    monkeypatch.setattr("sklearn.cluster.kmeans_plusplus", far)
    words = fit(points, 8)
    gaps = np.linalg.norm(words[:, None] - centres[None], axis=-1)
    assert sorted(gaps.argmin(1).tolist()) == list(range(8))
    assert gaps.min(1).max() < 0.1


def test_fewer_points_than_codes_gives_each_its_own_and_spares_that_win_nothing() -> None:
    rng = np.random.default_rng(3)
    points = np.repeat(rng.standard_normal((10, 4)), 3, axis=0).astype(np.float32)
    words = fit(points, 64)
    assert words.shape == (64, 4)
    assert len(np.unique(words, axis=0)) == 64
    codes = nearest(points.astype(np.float64), words.astype(np.float64))
    assert np.array_equal(words[codes], points)
    assert len(np.unique(codes)) == 10


def test_one_repeated_point_is_no_trouble() -> None:
    words = kmeans(np.zeros((5, 3), np.float32), 4, iterations=5, rng=np.random.default_rng(0), scale=0.0)
    assert np.isfinite(words).all()
    assert len(np.unique(words, axis=0)) == 4


def test_worst_quantised_spreads_out_and_skips_repeats() -> None:
    points = np.array([[0.0], [9.0], [9.0], [8.9], [5.0], [1.0]], np.float32)
    errors = (points[:, 0] ** 2).astype(np.float32)
    assert points[worst_quantised(points, errors, 3), 0].tolist() == [9.0, 5.0, 1.0]
    assert len(worst_quantised(points, errors, 99)) == 4
    assert len(worst_quantised(points, np.zeros(6, np.float32), 2)) == 0


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


CONFIG = SidConfig(quantiser="rkmeans", levels=3, codes=8, dim=16, resolve_rounds=0, collision_token=False)


def run(features: np.ndarray, config: SidConfig = CONFIG, seed: int = 0):
    return quantise(features, config, seed=seed, device="cpu", progress=Progress())


def test_planted_hierarchy_is_recovered() -> None:
    data = planted(coarse=8, fine=4)
    table = run(data.features)
    assert purity(table.codes[:, 0], data.coarse) >= 0.95
    joint = data.coarse * 4 + data.fine
    pairs = table.codes[:, 0] * 8 + table.codes[:, 1]
    assert purity(pairs, joint) >= 0.95


def test_each_level_lowers_the_error() -> None:
    errors = [level.error for level in health(run(planted().features)).levels]
    assert all(e is not None for e in errors)
    assert errors[0] > 2 * errors[1] > 2 * errors[2]  # type: ignore[operator]


def test_codes_are_the_argmin_of_the_tables_distances() -> None:
    table = run(np.random.default_rng(5).standard_normal((700, 40)).astype(np.float32))
    again = np.stack([d.argmin(1) for d in table.distances(np.arange(700))], axis=1)
    np.testing.assert_array_equal(again, table.codes)


def test_projection_keeps_the_leading_variance_and_has_fixed_signs() -> None:
    rng = np.random.default_rng(0)
    features = (rng.standard_normal((200, 30)) * np.linspace(3, 0.1, 30)).astype(np.float32)
    every = np.ones(200, dtype=bool)
    small = project(features, 4, every)
    top = np.sort(np.linalg.eigvalsh(np.cov(features.T)))[::-1][:4]
    np.testing.assert_allclose(small.var(axis=0, ddof=1), top, rtol=1e-3)
    # The subspace's signs depend on the data alone: reordered rows give the same components.
    order = rng.permutation(200)
    np.testing.assert_allclose(project(features[order], 4, every), small[order], atol=1e-3)
    assert project(features[:, :3], 4, every) is not None
    np.testing.assert_array_equal(project(features[:, :3], 4, every), features[:, :3])


def test_projection_of_few_rows() -> None:
    features = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    fit = np.array([True, True, True, False, False, False])
    assert project(features, 16, fit).shape == (6, 3)
