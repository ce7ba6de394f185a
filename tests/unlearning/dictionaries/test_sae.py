"""TopK autoencoders against dictionaries that are known, and sums written out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.dictionaries.sae import SaeConfig, TopKSae, train_sae, unexplained

CONFIG = SaeConfig(sae_width=4, sae_k=3, sae_steps=300, sae_batch_size=256)


def world(rows: int = 6000, size: int = 16, count: int = 24, active: int = 2) -> tuple[Tensor, Tensor]:
    """Rows that are sums of two of 24 known directions in 16 dimensions, off the origin."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    directions = F.normalize(torch.randn(count, size, generator=draw))
    codes = torch.zeros(rows, count)
    places = torch.rand(rows, count, generator=draw).topk(active).indices
    codes.scatter_(1, places, 1 + torch.rand(rows, active, generator=draw))
    return 5 * codes @ directions + 0.3, directions


@pytest.fixture(scope="module")
def trained() -> tuple[TopKSae, Tensor, Tensor, Progress]:
    rows, directions = world()
    progress = Progress()
    return train_sae(rows[:5000], CONFIG, seed=0, stage="test", progress=progress), rows, directions, progress


def test_a_known_dictionary_is_recovered(trained: tuple[TopKSae, Tensor, Tensor, Progress]) -> None:
    sae, rows, directions, progress = trained
    assert (directions @ sae.directions.T).max(1).values.mean() > 0.95
    assert unexplained(rows[5000:], sae.reconstruct(rows[5000:])) < 0.1
    losses = [step.losses["unexplained"] for step in progress.steps]
    assert losses[-1] < losses[0]


def test_codes_are_k_sparse_and_decode_to_the_reconstruction(trained: tuple[TopKSae, Tensor, Tensor, Progress]) -> None:
    sae, rows, _, _ = trained
    codes = sae.codes(rows[5000:])
    assert ((codes > 0).sum(1) <= 3).all()
    assert (codes >= 0).all()
    assert ((codes > 0).sum(1) == 3).any()
    dense = sae.weight_codes(rows[5000:])
    assert ((dense > 0).sum(1) > 3).any(), "weight vectors are not cut to k"
    assert (codes[codes > 0] == dense[codes > 0]).all()
    torch.testing.assert_close(sae.decode(codes), sae.reconstruct(rows[5000:]))
    torch.testing.assert_close(sae.directions.norm(dim=1), torch.ones(64))
    shifted = sae.weight_codes(rows[:1] + rows[1:2]) - sae.weight_codes(rows[:1])
    both = (sae.weight_codes(rows[:1]) > 0) & (sae.weight_codes(rows[:1] + rows[1:2]) > 0)
    torch.testing.assert_close(shifted[both], (rows[1:2] @ sae.encoder_rows.T)[both], rtol=1e-3, atol=1e-4)


def test_unexplained_variance_is_the_hand_computed_ratio() -> None:
    rows = torch.tensor([[0.0, 0.0], [2.0, 0.0], [4.0, 6.0]])
    reconstruction = torch.tensor([[0.0, 1.0], [2.0, 0.0], [3.0, 6.0]])
    assert unexplained(rows, reconstruction) == pytest.approx((1 + 1) / (4 + 0 + 4 + 4 + 4 + 16))
    assert unexplained(rows, rows) == 0
    assert unexplained(rows, rows.mean(0).expand(3, 2)) == pytest.approx(1)


def test_an_untrained_dictionary_explains_too_little() -> None:
    rows, _ = world()
    sae = train_sae(rows[:5000], CONFIG.model_copy(update={"sae_steps": 0}), seed=0, stage="test", progress=Progress())
    assert unexplained(rows[5000:], sae.reconstruct(rows[5000:])) > 0.2


def test_dead_features_are_trained_on_what_the_living_miss() -> None:
    """Rows near one point leave most features silent; AuxK gives them gradients, without it they would stay put."""
    rows, _ = world(rows=600)
    config = CONFIG.model_copy(update={"sae_steps": 60, "sae_dead_after": 512})
    never = CONFIG.model_copy(update={"sae_steps": 60, "sae_dead_after": 10**9})
    one, two = (train_sae(rows, each, seed=0, stage="test", progress=Progress()) for each in (config, never))
    assert not torch.equal(one.directions, two.directions)


def test_the_same_seed_gives_the_same_dictionary_and_the_scale_of_the_inputs_does_not_matter() -> None:
    rows, _ = world(rows=1000)
    config = CONFIG.model_copy(update={"sae_steps": 30})
    one, two = (train_sae(rows, config, seed=0, stage="test", progress=Progress()) for _ in range(2))
    assert torch.equal(one.directions, two.directions)
    wide = train_sae(rows * 64, config, seed=0, stage="test", progress=Progress())
    torch.testing.assert_close(wide.reconstruct(rows * 64), one.reconstruct(rows) * 64, rtol=1e-3, atol=1e-2)
