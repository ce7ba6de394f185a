from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import ConfigError, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import LetterSidConfig, letter_sid_preset
from genrec_unlearn_bench.sids.letter import letter_sids
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.table import SidTable
from tests.sids.planted import planted, purity

CONFIG = LetterSidConfig(
    levels=2, codes=16, dim=8, hidden=(32,), epochs=60, batch_size=128, warmup_epochs=5, clusters=4, alpha=0.1
)


def run(features: np.ndarray, vectors: np.ndarray, **fields: Any) -> SidTable:
    torch.set_num_threads(1)
    fit = fields.pop("fit", np.ones(len(features), dtype=bool))
    seed, progress = fields.pop("seed", 0), fields.pop("progress", Progress())
    config = CONFIG.model_copy(update=fields)
    return letter_sids(features, vectors, config, seed=seed, device="cpu", progress=progress, fit_rows=fit)


def behaviour(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of weak texts, behaviour that cuts across their groups, and the behaviour's vectors."""
    data = planted(coarse=4, fine=4, items=16, dim=24, noise=0.3)
    # The fine group is what users go by; in the texts it is the smaller part.
    spread = np.random.default_rng(seed).standard_normal((len(data.fine), 8)) * 0.1
    vectors = 2 * np.eye(8)[data.fine] + spread
    return data.features, data.fine, vectors.astype(np.float32)


def test_behaviour_that_texts_hardly_show_reaches_the_first_codes() -> None:
    features, groups, vectors = behaviour()
    mixed = vectors[np.random.default_rng(1).permutation(len(vectors))]

    def shared(alpha: float, with_vectors: np.ndarray) -> float:
        """How far items with one first code are items that one group of users takes; a quarter by chance."""
        return purity(run(features, with_vectors, alpha=alpha, codes=8, lr=5e-3).codes[:, 0], groups)

    without, real, random = shared(0.0, vectors), shared(1.0, vectors), shared(1.0, mixed)
    assert without < 0.4
    assert real > without + 0.25
    assert real > random + 0.15, "it is the vectors' content that counts"


def test_without_its_terms_it_is_the_plain_tokenizer() -> None:
    features, _, vectors = behaviour()
    config = CONFIG.model_copy(update={"alpha": 0.0, "beta_diversity": 0.0, "epochs": 6})
    plain = quantise(features, config, seed=0, device="cpu", progress=Progress())
    table = run(features, vectors, alpha=0.0, beta_diversity=0.0, epochs=6)
    assert plain.digest == table.digest
    assert run(features, vectors, alpha=0.0, beta_diversity=1.0, epochs=6).digest != plain.digest


def test_the_same_seed_gives_the_same_bits() -> None:
    features, _, vectors = behaviour()
    torch.manual_seed(1)
    one = run(features, vectors, epochs=8)
    torch.manual_seed(2)
    two, other = run(features, vectors, epochs=8), run(features, vectors, epochs=8, seed=1)
    assert one.digest == two.digest
    assert one.latents is not None
    assert two.latents is not None
    np.testing.assert_array_equal(one.latents, two.latents)
    assert one.digest != other.digest


def test_rows_that_are_not_fitted_on_leave_no_trace() -> None:
    features, _, vectors = behaviour()
    fit = np.ones(len(features), dtype=bool)
    fit[::5] = False
    changed, broken = features.copy(), vectors.copy()
    changed[~fit] += 3
    broken[~fit] = np.nan
    one, two = (run(features, each, fit=fit, epochs=6) for each in (vectors, broken))
    assert one.digest == two.digest, "nobody reads the vectors of unknown items"
    moved = run(changed, vectors, fit=fit, epochs=6)
    assert one.codebooks is not None
    assert moved.codebooks is not None
    np.testing.assert_array_equal(one.codebooks[0], moved.codebooks[0])
    assert len(one) == len(features)


def test_sinkhorn_balances_the_last_level_alone_and_in_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from genrec_unlearn_bench.sids import rqvae

    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    real = rqvae.sinkhorn_codes

    def spy(distances: torch.Tensor, **options: Any) -> torch.Tensor:
        codes = real(distances, **options)
        seen.append((distances, codes))
        return codes

    monkeypatch.setattr(rqvae, "sinkhorn_codes", spy)
    features, _, vectors = behaviour()
    table = run(features, vectors, epochs=4, batch_size=256)
    # 256 items are one batch: one call an epoch, and none while checkpoints are compared or codes are given.
    assert len(seen) == 4
    assert max(int(torch.bincount(codes).max()) for _, codes in seen) <= 2 * 256 / 16
    assert table.quantised_levels == 2


def test_colliding_items_are_encoded_again_and_the_rest_told_apart() -> None:
    features, _, vectors = behaviour()
    features[1], vectors[1] = features[0], vectors[0]
    table = run(features, vectors, epochs=8)
    kept = run(features, vectors, epochs=8, collision_token=False)
    untouched = run(features, vectors, epochs=8, collision_token=False, resolve_rounds=0)
    assert len(np.unique(table.codes, axis=0)) == len(features)
    assert table.levels == 3
    assert kept.levels == 2
    distinct = [len(np.unique(each.codes, axis=0)) for each in (untouched, kept)]
    assert distinct[0] < distinct[1] < len(features)


def test_losses_are_noted() -> None:
    features, _, vectors = behaviour()
    progress = Progress()
    run(features, vectors, epochs=30, recluster_epochs=5, progress=progress)
    logged = [step.losses["alignment"] for step in progress.steps if step.stage == "sids.letter"]
    assert len(logged) == 5
    assert logged[-1] < logged[0]
    assert progress.notes["sids_alignment_loss"]


def test_presets_have_four_levels() -> None:
    for scale in ("smoke", "small", "paper", "official"):
        config = letter_sid_preset(scale)
        assert config.levels == 4
        assert config.sinkhorn == "last"
        assert config.resolve_rounds == 20
        assert config.collision_token == (scale != "official")
        assert scale == "smoke" or config.codes == 256
    assert letter_sid_preset("official").dim == 32
    assert letter_sid_preset("official").cluster_bounds == (10, 60)


def test_bad_input_is_named() -> None:
    features, _, vectors = behaviour()
    with pytest.raises(DataFault, match="not finite"):
        run(features, np.full_like(vectors, np.inf))
    with pytest.raises(ValueError, match="collaborative vectors"):
        run(features, vectors[:-1])
    with pytest.raises(ConfigError, match="do not fill"):
        parse(LetterSidConfig, {"codes": 16, "clusters": 9}, where="test")
    with pytest.raises(ConfigError, match="quantiser"):
        parse(LetterSidConfig, {"quantiser": "rkmeans"}, where="test")
