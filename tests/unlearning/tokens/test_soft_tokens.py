from __future__ import annotations

import numpy as np
import torch

from genrec_unlearn_bench.sids.overlap import overlap
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import (
    MaskedAdam,
    MaskedSgd,
    SoftTokens,
    anneal,
    distance_scale,
    normalised_entropy,
    retain_frequencies,
    update_mask,
)
from tests.planted import concept, sids

CPU = torch.device("cpu")


def start() -> SoftTokens:
    table = sids()
    return SoftTokens.start(table, concept(), distance_scale(table), CPU)


def test_zero_phi_and_vanishing_temperature_give_the_hard_sids() -> None:
    tokens = start()
    for level, weights in enumerate(tokens.assignment_probs(1e-4)):
        codes = sids().codes[tokens.items, level]
        assert torch.equal(weights.argmax(1), torch.from_numpy(codes))
        assert weights.max(1).values.min() > 0.999


def test_the_unit_is_the_median_gap_and_makes_temperatures_scale_free() -> None:
    from dataclasses import replace

    table = sids()
    distances = table.distances(np.arange(len(table)))[0]
    two = np.sort(distances, axis=1)[:, :2]
    assert distance_scale(table)[0] == np.float32(np.median(two[:, 1] - two[:, 0]))
    assert table.codebooks is not None
    assert table.latents is not None
    large = replace(table, codebooks=tuple(b * 30 for b in table.codebooks), latents=table.latents * 30)
    scaled = SoftTokens.start(large, concept(), distance_scale(large), CPU)
    for a, b in zip(start().assignment_probs(2.0), scaled.assignment_probs(2.0), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    raw = SoftTokens.start(large, concept(), [1.0] * 3, CPU).assignment_probs(0.005)
    assert normalised_entropy(raw) < 1e-3, "the paper's raw temperature is one-hot at this scale"


def test_the_regulariser_sums_over_levels_and_codes_and_averages_over_items() -> None:
    """A mean over all n·L·K entries would divide the penalty of an item by L·K."""
    tokens = start()
    for level in tokens.phi:
        level.data.fill_(-0.5)
    entries = sum(level.shape[1] for level in tokens.phi)
    torch.testing.assert_close(tokens.regulariser(), torch.tensor(0.5 * entries))
    torch.testing.assert_close(tokens.regulariser("sum"), torch.tensor(0.5 * entries * len(tokens.items)))
    tokens.regulariser().backward()
    for level in tokens.phi:
        torch.testing.assert_close(level.grad, torch.full_like(level, -1 / len(tokens.items)))


def test_annealing_is_exponential_between_its_ends() -> None:
    values = [anneal(2.0, 0.1, step, 11) for step in range(11)]
    np.testing.assert_allclose(values[0], 2.0)
    np.testing.assert_allclose(values[-1], 0.1)
    np.testing.assert_allclose(np.diff(np.log(values)), np.diff(np.log(values))[0])


def test_the_mask_is_equation_eleven() -> None:
    tokens = start()
    weights = tokens.assignment_probs(1.0)
    rho = [r.float() for r in retain_frequencies(sids(), np.flatnonzero(~concept()))]
    gradient = [torch.randn_like(w) for w in weights]
    masks = update_mask(weights, rho, gradient, "on")
    item, level, code = 2, 1, 3
    mean = sum(float(weights[level][item, k].detach() * rho[level][k]) for k in range(16))
    for code in range(16):
        expected = float(rho[level][code]) > mean and float(gradient[level][item, code]) > 0
        assert bool(masks[level][item, code]) == expected
    assert all((m == 1).all() for m in update_mask(weights, rho, gradient, "off"))
    for on, wide in zip(masks, update_mask(weights, rho, gradient, "overlap-only"), strict=True):
        assert (on <= wide).all()


def soft_overlap(weights: tuple[torch.Tensor, ...], rho: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([(w * r[None]).sum(-1).mean() for w, r in zip(weights, rho, strict=True)]).mean()


def test_soft_overlap_at_zero_temperature_is_omega() -> None:
    rho = [r.float() for r in retain_frequencies(sids(), np.flatnonzero(~concept()))]
    soft = float(soft_overlap(start().assignment_probs(1e-4), rho).detach())
    np.testing.assert_allclose(soft, overlap(sids(), concept()).quantised, rtol=1e-4)


def test_one_masked_plain_step_raises_neither_overlap_nor_forget_loss() -> None:
    """The paper's lemma under A1: no concept item in any history, so L_F depends on φ through the target alone."""
    rho = [r.float() for r in retain_frequencies(sids(), np.flatnonzero(~concept()))]
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        tokens = start()
        for phi in tokens.phi:
            phi.data.normal_(generator=generator)
        log_p = [torch.randn(16, generator=generator).log_softmax(0) * 3 for _ in range(3)]

        def forget(tokens: SoftTokens = tokens, log_p: list[torch.Tensor] = log_p) -> torch.Tensor:
            return torch.stack(
                [(w @ p).mean() for w, p in zip(tokens.assignment_probs(1.0), log_p, strict=True)]
            ).mean()

        before_f, before_o = forget(), soft_overlap(tokens.assignment_probs(1.0), rho)
        gradient = list(torch.autograd.grad(before_f, tokens.phi))
        masks = update_mask(tokens.assignment_probs(1.0), rho, gradient, "on")
        assert sum(float(m.sum()) for m in masks) > 0
        MaskedSgd(tokens.phi, 0.5).step(gradient, masks)
        assert float(forget().detach()) < float(before_f.detach())
        assert float(soft_overlap(tokens.assignment_probs(1.0), rho).detach()) < float(before_o.detach())


def test_masked_adam_is_adam_where_the_mask_is_on_and_still_where_it_is_off() -> None:
    ours, plain = torch.zeros(4), torch.zeros(4, requires_grad=True)
    optimiser, reference = MaskedAdam([ours], 0.1), torch.optim.Adam([plain], lr=0.1)
    mask = torch.tensor([1.0, 1.0, 0.0, 0.0])
    for step in range(5):
        gradient = torch.tensor([1.0, -2.0 + step, 3.0, 0.5])
        optimiser.step([gradient], [mask])
        plain.grad = gradient.clone()
        reference.step()
    torch.testing.assert_close(ours[:2], plain.detach()[:2], rtol=1e-5, atol=1e-6)
    assert (ours[2:] == 0).all()
    frozen = ours.clone()
    optimiser.step([torch.ones(4)], [torch.zeros(4)])
    assert torch.equal(ours, frozen), "momentum moved a masked coordinate"


def test_following_codes_at_zero_phi_changes_nothing() -> None:
    tokens = start()
    before = [d.clone() for d in tokens.distances]
    tokens.follow_codes(sids(), distance_scale(sids()))
    for a, b in zip(before, tokens.distances, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
