from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.kmeans import project
from genrec_unlearn_bench.sids.quantise import quantise
from tests.sids.planted import planted, purity

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
