from __future__ import annotations

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.rqvae import RqVae, rqvae_loss

CONFIG = SidConfig(quantiser="rqvae", levels=2, codes=2, dim=2, hidden=(5,), beta=0.25)


def model() -> RqVae:
    made = RqVae(torch.zeros(3), 1.0, CONFIG, seed=0)
    with torch.no_grad():
        made.codebooks[0].copy_(torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
        made.codebooks[1].copy_(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    return made


def test_quantisation_by_hand() -> None:
    quantised = model().quantise(torch.tensor([[3.0, 0.5], [0.5, 2.0]]))
    # (3, .5) -> (4, 0), leaves (-1, .5) -> (-1, 0); (.5, 2) -> (0, 0), leaves itself -> (0, 1).
    assert quantised.codes.tolist() == [[1, 1], [0, 0]]
    assert quantised.residuals.tolist() == [[[3.0, 0.5], [-1.0, 0.5]], [[0.5, 2.0], [0.5, 2.0]]]
    assert quantised.words.tolist() == [[[4.0, 0.0], [-1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]


def test_loss_by_hand() -> None:
    quantised = model().quantise(torch.tensor([[3.0, 0.5], [0.5, 2.0]]))
    inputs, output = torch.tensor([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), torch.zeros(2, 3)
    loss = rqvae_loss(inputs, output, quantised, beta=0.25)
    # Squared residuals: level 1 (1 + .25) + (.25 + 4), level 2 (0 + .25) + (.25 + 1); means over 4, then levels.
    expected = ((1.25 + 4.25) / 4 + (0.25 + 1.25) / 4) / 2
    assert loss.reconstruction.item() == pytest.approx(5 / 6)
    assert loss.codebook.item() == pytest.approx(expected)
    assert loss.commitment.item() == pytest.approx(expected)
    assert loss.total.item() == pytest.approx(5 / 6 + 1.25 * expected)


def test_gradients_reach_encoder_and_codebooks_as_defined() -> None:
    latents = torch.tensor([[3.0, 0.5]], requires_grad=True)
    made = model()
    quantised = made.quantise(latents)
    loss = rqvae_loss(torch.zeros(1, 3), torch.zeros(1, 3), quantised, beta=0.25)
    loss.commitment.backward(retain_graph=True)
    # Every level's residual error pulls on the latent: 2 (r1 - c1) / 4 + 2 (r2 - c2) / 4, by 4 elements in all.
    torch.testing.assert_close(latents.grad, torch.tensor([[(-1.0 + 0.0) / 2, (0.5 + 0.5) / 2]]))
    assert all(book.grad is None for book in made.codebooks)
    latents.grad = None
    loss.codebook.backward()
    assert latents.grad is None
    torch.testing.assert_close(made.codebooks[0].grad, torch.tensor([[0.0, 0.0], [0.5, -0.25]]))
    torch.testing.assert_close(made.codebooks[1].grad, torch.tensor([[0.0, 0.0], [0.0, -0.25]]))


def test_the_decoder_gets_codewords_and_the_encoder_its_gradient() -> None:
    made = model()
    seen: list[torch.Tensor] = []
    made.decoder.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
    inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    loss, quantised = made(inputs)
    torch.testing.assert_close(seen[0], quantised.words.sum(1))
    loss.reconstruction.backward()
    assert made.encoder[0].weight.grad.abs().sum() > 0
    assert all(book.grad is None for book in made.codebooks)


def test_weights_come_from_the_seed_and_leave_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    one, two, other = (RqVae(torch.zeros(3), 1.0, CONFIG, seed=s) for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.encoder[0].weight, two.encoder[0].weight)
    assert not torch.equal(one.encoder[0].weight, other.encoder[0].weight)


def test_structure() -> None:
    made = RqVae(torch.zeros(10), 1.0, SidConfig(quantiser="rqvae", hidden=(8, 6), dim=4, codes=16), seed=0)
    shapes = [tuple(layer.weight.shape) for layer in made.encoder if isinstance(layer, torch.nn.Linear)]
    mirror = [tuple(layer.weight.shape) for layer in made.decoder if isinstance(layer, torch.nn.Linear)]
    assert shapes == [(8, 10), (6, 8), (4, 6)]
    assert mirror == [(6, 4), (8, 6), (10, 8)]
    kinds = {type(layer) for part in (made.encoder, made.decoder) for layer in part}
    assert kinds == {torch.nn.Linear, torch.nn.ReLU}
    assert isinstance(made.encoder[-1], torch.nn.Linear)


@pytest.mark.parametrize(
    ("option", "balanced"), [("off", [False, False]), ("last", [False, True]), ("all", [True] * 2)]
)
def test_sinkhorn_balances_the_levels_it_is_asked_to(option: str, balanced: list[bool]) -> None:
    made = RqVae(torch.zeros(3), 1.0, SidConfig(quantiser="rqvae", levels=2, codes=2, dim=2, hidden=(5,)), seed=0)
    with torch.no_grad():
        for book in made.codebooks:
            book.copy_(torch.tensor([[0.0, 0.0], [50.0, 50.0]]))
    latents = torch.rand(64, 2, generator=torch.Generator().manual_seed(0))
    codes = made.quantise(latents, option).codes.numpy()  # type: ignore[arg-type]
    shares = [np.bincount(codes[:, level], minlength=2) / 64 for level in range(2)]
    for share, even in zip(shares, balanced, strict=True):
        assert (0.4 < share[1] < 0.6) if even else share[1] == 0
