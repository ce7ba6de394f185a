from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from genrec_unlearn_bench.methods.repnoise import mmd, noise_distance


def naive(one: Tensor, two: Tensor) -> float:
    """The definition, pair by pair."""
    points = [*one.tolist(), *two.tolist()]
    square = [[sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in points] for x in points]
    count, n = len(points), len(one)
    base = sum(map(sum, square)) / (count * count - count) / 4
    total = 0.0
    for i in range(count):
        for j in range(count):
            kernel = sum(math.exp(-square[i][j] / (base * 2**power)) for power in range(5))
            total += kernel if (i < n) == (j < n) else -kernel
    return total / n**2


def test_it_is_the_v_statistic_of_five_kernels() -> None:
    draw = torch.Generator().manual_seed(0)
    one, two = torch.randn(7, 3, generator=draw), 2 * torch.randn(7, 3, generator=draw) + 0.5
    assert float(mmd(one, two)) == pytest.approx(naive(one, two), rel=1e-4)


@pytest.mark.parametrize(("rows", "bias"), [(4, 1.53), (8, 0.77), (32, 0.19), (128, 0.048)])
def test_of_equal_distributions_it_is_its_known_bias(rows: int, bias: float) -> None:
    draw = torch.Generator().manual_seed(1)
    found = [
        float(mmd(torch.randn(rows, 384, generator=draw), torch.randn(rows, 384, generator=draw))) for _ in range(8)
    ]
    assert sum(found) / len(found) == pytest.approx(bias, rel=0.03)


def test_different_distributions_are_far_above_the_bias() -> None:
    draw = torch.Generator().manual_seed(2)
    noise = torch.randn(64, 96, generator=draw)
    assert float(mmd(0.3 * torch.randn(64, 96, generator=draw), noise)) > 5 * 6.19 / 64
    assert float(mmd(torch.randn(64, 96, generator=draw) + 1, noise)) > 5 * 6.19 / 64


def test_points_that_all_coincide_give_zero_and_finite_gradients() -> None:
    one = torch.zeros(4, 3, requires_grad=True)
    value = mmd(one, torch.zeros(4, 3))
    value.backward()
    assert float(value.detach()) == pytest.approx(0.0, abs=1e-6)
    assert one.grad is not None
    assert torch.isfinite(one.grad).all()


def test_the_batch_is_matched_as_a_distribution_and_not_point_by_point() -> None:
    """Neither adding noise nor a squared error to it: only which points there are counts, not whose they are."""
    draw = torch.Generator().manual_seed(3)
    states, noise = torch.randn(64, 12, generator=draw), torch.randn(64, 12, generator=draw)
    shuffled = noise[torch.randperm(64, generator=draw)]
    assert float(mmd(states, noise)) == pytest.approx(float(mmd(states, shuffled)), rel=1e-4)
    collapsed = torch.nn.Parameter(0.05 * torch.randn(64, 12, generator=draw))
    optimizer = torch.optim.Adam([collapsed], lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        mmd(collapsed, torch.randn(64, 12, generator=draw)).backward()
        optimizer.step()
    assert 0.7 < float(collapsed.detach().std()) < 1.3  # a squared error to fresh noise would lead to 0


def test_masked_positions_count_for_nothing_and_layers_are_averaged() -> None:
    draw = torch.Generator().manual_seed(4)
    layers = [torch.randn(8, 3, 5, generator=draw) for _ in range(2)]
    mask = torch.tensor([[False, True, True]] * 5 + [[True, True, False]] * 3)
    value = noise_distance(layers, mask, torch.Generator().manual_seed(7))
    changed = [layer.masked_fill(~mask[..., None], 99.0) for layer in layers]
    assert float(noise_distance(changed, mask, torch.Generator().manual_seed(7))) == pytest.approx(float(value))
    source = torch.Generator().manual_seed(7)
    by_hand = []
    for layer in layers:
        noise = torch.randn(8, 3, 5, generator=source)
        rows = [[(x[m].flatten().tolist()) for x, m in zip(side, mask, strict=True)] for side in (layer, noise)]
        # Every row has two of three positions, though not the same: lay them where they stood.
        full = [torch.zeros(8, 3, 5) for _ in range(2)]
        for side, values in zip(full, rows, strict=True):
            side[mask] = torch.tensor(values).reshape(-1, 5)
        by_hand.append(naive(full[0].flatten(1), full[1].flatten(1)))
    assert float(value) == pytest.approx(sum(by_hand) / 2, rel=1e-4)
