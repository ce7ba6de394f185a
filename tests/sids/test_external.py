from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.kmeans import surrogate_codebooks
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.table import from_index
from tests.sids.planted import planted


def test_an_index_becomes_a_table_without_codebooks() -> None:
    table = from_index(np.array([[3, 0], [1, 2]]), (256, 256))
    assert (table.level_sizes, table.quantised_levels, table.codebooks, table.version) == ((256, 256), 2, None, 0)
    assert from_index(np.array([[3, 0], [1, 2]])).level_sizes == (4, 3)
    assert from_index(np.array([[3, 0], [1, -1]])).level_sizes == (4, 1)


def test_surrogates_are_means_of_residuals_by_hand() -> None:
    table = from_index(np.array([[0, 0], [0, 1], [2, 0]]), (3, 2))
    features = np.array([[1.0, 0.0], [3.0, 0.0], [10.0, 4.0]], np.float32)
    made = surrogate_codebooks(table, features)
    assert made.codebooks is not None
    first, second = made.codebooks
    np.testing.assert_allclose(first[[0, 2]], [[2, 0], [10, 4]])
    # Residuals (-1, 0), (1, 0), (0, 0).
    np.testing.assert_allclose(second, [[-0.5, 0], [1, 0]])
    np.testing.assert_array_equal(made.codes, table.codes)
    assert made.latents is not None
    np.testing.assert_array_equal(made.latents, features)


def test_unused_codes_are_further_than_every_used_one() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, (60, 3)) * 3
    made = surrogate_codebooks(from_index(codes, (16, 16, 16)), rng.standard_normal((60, 4)).astype(np.float32))
    for level, distances in enumerate(made.distances(np.arange(60))):
        used = np.isin(np.arange(16), codes[:, level])
        assert distances[:, ~used].min() > distances[:, used].max()


def test_surrogates_of_residual_kmeans_are_its_codebooks() -> None:
    features = planted(dim=12).features
    config = SidConfig(codes=8, dim=16, resolve_rounds=0, collision_token=False, levels=2)
    table = quantise(features, config, seed=0, device="cpu", progress=Progress())
    made = surrogate_codebooks(from_index(table.codes, table.level_sizes), features)
    assert made.codebooks is not None
    assert table.codebooks is not None
    for ours, theirs in zip(made.codebooks, table.codebooks, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert all(level.nearest_share == 1.0 for level in health(made).levels)


def test_padding_has_no_centroid() -> None:
    table = from_index(np.array([[0, 0], [0, -1], [1, -1]]))
    made = surrogate_codebooks(table, np.eye(3, dtype=np.float32))
    assert made.codebooks is not None
    assert all(np.isfinite(book).all() for book in made.codebooks)
