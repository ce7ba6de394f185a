from __future__ import annotations

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.rqvae import RqVae, centred, log_plan, rqvae_loss, sinkhorn_codes

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


def test_distances_are_mapped_to_the_unit_range_problem_by_problem() -> None:
    distances = torch.tensor([[[0.0, 4.0], [2.0, 1.0]], [[100.0, 300.0], [200.0, 200.0]]], dtype=torch.float64)
    scaled = centred(distances)
    torch.testing.assert_close(scaled.amax((1, 2)), torch.ones(2, dtype=torch.float64), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.amin((1, 2)), -torch.ones(2, dtype=torch.float64), atol=1e-4, rtol=0)
    assert torch.isfinite(centred(torch.ones(3, 4))).all()


def test_the_plan_is_doubly_normalised() -> None:
    distances = torch.rand(40, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plan = log_plan(centred(distances), epsilon=0.05, iterations=2000).exp()
    torch.testing.assert_close(plan.sum(1), torch.full((40,), 1 / 40, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(plan.sum(0), torch.full((8,), 1 / 8, dtype=torch.float64), atol=1e-6, rtol=0)


def test_the_plan_is_the_entropic_optimum() -> None:
    # At the optimum the plan is diag(u) exp(-d / eps) diag(v): its log plus d / eps has rank-one structure.
    distances = torch.rand(6, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    potential = log_plan(distances, epsilon=0.1, iterations=500) + distances / 0.1
    cross = potential[1:, 1:] - potential[1:, :1] - potential[:1, 1:] + potential[0, 0]
    torch.testing.assert_close(cross, torch.zeros_like(cross), atol=1e-9, rtol=0)


def test_it_stays_finite_where_the_kernel_under_and_overflows() -> None:
    distances = torch.rand(64, 16, generator=torch.Generator().manual_seed(2)) ** 4 * 1e6
    plan = log_plan(centred(distances), epsilon=1e-3, iterations=50)
    assert torch.isfinite(plan).all()


def test_assignments_are_balanced_where_nearest_ones_are_not() -> None:
    generator = torch.Generator().manual_seed(3)
    points = torch.randn(256, 2, generator=generator, dtype=torch.float64)
    words = torch.randn(8, 2, generator=generator, dtype=torch.float64) + 2.0
    distances = torch.cdist(points, words) ** 2
    greedy = torch.bincount(distances.argmin(1), minlength=8)
    even = torch.bincount(sinkhorn_codes(distances, epsilon=0.003, iterations=300), minlength=8)
    assert greedy.max() > 80
    assert even.min() >= 28
    assert even.max() <= 36


def test_two_rows_that_share_their_nearest_code_part() -> None:
    distances = torch.tensor([[0.0, 1.0, 5.0], [0.1, 1.5, 5.0]], dtype=torch.float64)
    assert len(set(sinkhorn_codes(distances, epsilon=0.003, iterations=50).tolist())) == 2


def test_batches_are_solved_one_by_one() -> None:
    distances = torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    together = sinkhorn_codes(distances, epsilon=0.01, iterations=50)
    alone = torch.stack([sinkhorn_codes(d, epsilon=0.01, iterations=50) for d in distances])
    assert torch.equal(together, alone)


def test_balanced_codes_are_those_of_float64_whatever_the_latents_precision() -> None:
    """A kernel in float32 has no range for it: rows far from every codeword would have no entry but 0."""
    generator = torch.Generator().manual_seed(6)
    distances = torch.cdist(torch.randn(96, 4, generator=generator), torch.randn(16, 4, generator=generator)) ** 4
    for made in (distances, distances.bfloat16()):
        plan = log_plan(centred(made.double()), epsilon=0.003, iterations=50)
        assert torch.equal(sinkhorn_codes(made, epsilon=0.003, iterations=50), plan.argmax(-1))
    kernel = (-centred(distances) / 0.003).exp()
    assert not torch.isfinite(kernel).all()
    assert (kernel == 0).any()
    assert torch.isfinite((-centred(distances.double()) / 0.003).exp()).all()


@pytest.mark.parametrize("epsilon", [0.003, 0.001, 0.1])
def test_codes_are_the_largest_entries_of_the_plan(epsilon: float) -> None:
    generator = torch.Generator().manual_seed(5)
    distances = torch.cdist(torch.randn(200, 4, generator=generator), torch.randn(32, 4, generator=generator)) ** 4
    distances[:3] *= 1000  # A few rows take up most of the range.
    plan = log_plan(centred(distances.double()), epsilon=epsilon, iterations=50)
    codes = sinkhorn_codes(distances.double(), epsilon=epsilon, iterations=50)
    assert torch.equal(codes, plan.argmax(-1))
