from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.sids.table import SidTable, nearest_codes, squared_distances


def test_squared_distances_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    points, words = rng.standard_normal((7, 5)), rng.standard_normal((4, 5))
    expected = ((points[:, None, :] - words[None, :, :]) ** 2).sum(-1)
    np.testing.assert_allclose(squared_distances(points, words), expected, rtol=1e-6)


def test_codes_are_greedy_on_residuals_and_not_on_the_latent() -> None:
    books = (np.array([[0.0], [10.0]], np.float32), np.array([[-1.0], [1.0]], np.float32))
    codes = nearest_codes(np.array([[9.1], [0.7], [10.4]], np.float32), books)
    assert codes.tolist() == [[1, 0], [0, 1], [1, 1]]


def test_ties_go_to_the_lower_code() -> None:
    books = (np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], np.float32),)
    assert nearest_codes(np.zeros((3, 2), np.float32), books).tolist() == [[0], [0], [0]]


def test_table_distances_reproduce_the_codes_on_a_lattice_full_of_ties() -> None:
    rng = np.random.default_rng(1)
    # Small integers: many exactly equal distances, at every level.
    latents = rng.integers(-3, 4, (500, 3)).astype(np.float32)
    books = tuple(rng.integers(-2, 3, (16, 3)).astype(np.float32) for _ in range(3))
    codes = nearest_codes(latents, books)
    table = SidTable(codes, (16, 16, 16), 3, books, latents)
    again = np.stack([d.argmin(1) for d in table.distances(np.arange(500))], axis=1)
    np.testing.assert_array_equal(again, codes)
    few = np.stack([d.argmin(1) for d in table.distances(np.array([3, 77, 401]))], axis=1)
    np.testing.assert_array_equal(few, codes[[3, 77, 401]])
