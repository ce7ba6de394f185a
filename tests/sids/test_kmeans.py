from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.sids.kmeans import kmeans, worst_quantised
from genrec_unlearn_bench.sids.residuals import nearest


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
