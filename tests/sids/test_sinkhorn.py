from __future__ import annotations

import pytest
import torch

from genrec_unlearn_bench.sids.rqvae import centred, log_plan, sinkhorn_codes


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


@pytest.mark.parametrize("epsilon", [0.003, 0.001, 0.1])
def test_codes_are_the_largest_entries_of_the_plan(epsilon: float) -> None:
    generator = torch.Generator().manual_seed(5)
    distances = torch.cdist(torch.randn(200, 4, generator=generator), torch.randn(32, 4, generator=generator)) ** 4
    distances[:3] *= 1000  # A few rows take up most of the range.
    plan = log_plan(centred(distances.double()), epsilon=epsilon, iterations=50)
    codes = sinkhorn_codes(distances.double(), epsilon=epsilon, iterations=50)
    assert torch.equal(codes, plan.argmax(-1))
