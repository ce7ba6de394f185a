from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.errors import BenchError, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SID_PRESETS, SidConfig
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.table import SidTable
from tests.sids.planted import planted

CONFIG = SidConfig(quantiser="rkmeans", codes=8, dim=16, resolve_rounds=0)


def run(features: np.ndarray, config: SidConfig = CONFIG, seed: int = 0, **options: object) -> SidTable:
    return quantise(features, config, seed=seed, device="cpu", progress=Progress(), **options)  # type: ignore[arg-type]


def test_with_the_collision_token_every_item_has_its_own_sid() -> None:
    features = np.repeat(planted(items=3).features, 3, axis=0)
    table = run(features)
    assert len(np.unique(table.codes, axis=0)) == len(features)
    assert table.levels == 4
    assert table.quantised_levels == 3
    groups = np.unique(table.quantised_codes, axis=0, return_counts=True)[1]
    assert table.level_sizes[-1] == groups.max() + CONFIG.collision_slack
    assert table.version == 0


def test_copies_get_ordinals_in_order_of_item_id() -> None:
    rng = np.random.default_rng(0)
    features = rng.standard_normal((30, 6)).astype(np.float32) * 9
    features[[4, 11, 29]] = features[4]
    table = run(features, CONFIG.model_copy(update={"codes": 32}))
    assert table.codes[[4, 11, 29], -1].tolist() == [0, 1, 2]
    assert (np.delete(table.codes[:, -1], [4, 11, 29]) == 0).all()


def test_without_the_token_duplicates_stay() -> None:
    features = np.repeat(planted(items=2).features, 2, axis=0)
    table = run(features, CONFIG.model_copy(update={"collision_token": False}))
    assert table.levels == table.quantised_levels == 3
    assert len(np.unique(table.codes, axis=0)) < len(features)


@pytest.mark.parametrize("quantiser", ["rkmeans", "rqvae"])
def test_rows_left_out_of_the_fit_change_nothing_but_are_encoded(quantiser: str) -> None:
    data = planted(coarse=8, fine=4)
    config = CONFIG.model_copy(update={"quantiser": quantiser, "epochs": 3, "hidden": (16,)})
    fit = data.coarse != 0
    table = run(data.features, config, fit_rows=fit)
    moved = data.features.copy()
    moved[~fit] += 3.0
    other = run(moved, config, fit_rows=fit)
    assert table.codebooks is not None
    assert other.codebooks is not None
    assert all(np.array_equal(a, b) for a, b in zip(table.codebooks, other.codebooks, strict=True))
    np.testing.assert_array_equal(table.quantised_codes[fit], other.quantised_codes[fit])
    assert len(table) == len(data.features)
    alone = run(data.features[fit], config)
    assert alone.codebooks is not None
    # Not to the bit: a projection of fewer rows at once may round its last bit differently.
    assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(table.codebooks, alone.codebooks, strict=True))


def test_same_seed_same_bits_another_seed_other_codebooks() -> None:
    features = planted(noise=0.5).features
    one, two, other = run(features), run(features), run(features, seed=1)
    assert one.digest == two.digest
    assert one.codebooks is not None
    assert two.codebooks is not None
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.codebooks, two.codebooks, strict=True))
    assert other.digest != one.digest


def test_resolution_leaves_fewer_collisions_and_the_first_levels_alone() -> None:
    features = planted(coarse=8, fine=4, items=12).features
    config = CONFIG.model_copy(update={"collision_token": False})
    plain = run(features, config)
    resolved = run(features, config.model_copy(update={"resolve_rounds": 20}))
    np.testing.assert_array_equal(plain.codes[:, :2], resolved.codes[:, :2])
    assert len(np.unique(resolved.codes, axis=0)) > len(np.unique(plain.codes, axis=0))


def test_few_items() -> None:
    table = run(planted(coarse=2, fine=1, items=1).features, SidConfig(codes=256, resolve_rounds=0))
    assert len(np.unique(table.codes, axis=0)) == 2
    assert len(np.unique(run(np.ones((4, 3), np.float32)).codes, axis=0)) == 4


def test_features_that_are_not_finite_are_refused() -> None:
    features = planted().features.copy()
    features[7, 3] = np.nan
    with pytest.raises(DataFault, match="not finite") as fault:
        run(features)
    assert fault.value.where == "item row 7"


def test_nothing_to_fit_on_is_refused() -> None:
    features = planted().features
    with pytest.raises(DataFault, match="at least two items"):
        run(features, fit_rows=np.zeros(len(features), dtype=bool))


def test_a_diverged_autoencoder_is_an_error() -> None:
    config = CONFIG.model_copy(update={"quantiser": "rqvae", "lr": 1e30, "epochs": 8, "hidden": (16,)})
    with pytest.raises(BenchError, match="diverged"):
        run(planted().features, config)


def test_paper_and_official_sizes() -> None:
    paper, official = SID_PRESETS["paper"], SID_PRESETS["official"]
    assert (paper.quantiser, paper.levels, paper.codes, paper.dim) == ("rqvae", 3, 256, 64)
    assert (official.quantiser, official.levels, official.codes, official.dim) == ("rqvae", 3, 256, 32)
    assert official.hidden == (512, 256, 128)
    assert official.beta == 0.25


@pytest.mark.parametrize("scale", ["smoke", "small", "paper", "official"])
def test_every_scale_has_the_collision_token_and_plain_nearest_codes(scale: str) -> None:
    config = SID_PRESETS[scale]
    assert config.collision_token
    assert config.resolve_rounds == 0
