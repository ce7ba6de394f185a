"""BLUR's direction on gradients that are known: the losses are linear, so each gradient is a vector."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.methods.blur import Priority, combine


def direction(
    forget: list[Tensor], retain: list[Tensor], *, gamma: float = 1.0, priority: Priority = "forget"
) -> tuple[list[Tensor], dict[str, float]]:
    parameters = [nn.Parameter(torch.zeros_like(part)) for part in forget]

    def linear(slopes: list[Tensor]) -> Tensor:
        return torch.stack([(p * s).sum() for p, s in zip(parameters, slopes, strict=True)]).sum()

    report = combine(parameters, lambda: linear(forget), lambda: linear(retain), gamma=gamma, priority=priority)
    return [p.grad for p in parameters if p.grad is not None], report


def flat(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def drawn(seed: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(5, 3, generator=draw), torch.randn(7, generator=draw)]


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_is_added_to_the_forget_gradient_is_orthogonal_to_it(gamma: float, sign: float) -> None:
    """Whether the gradients agree or not: PCGrad would leave them alone where they agree."""
    forget, noise = drawn(0), drawn(1)
    retain = [sign * 0.7 * f + n for f, n in zip(forget, noise, strict=True)]
    inner = float(flat(forget) @ flat(retain))
    assert inner * sign > 0
    d, _ = direction(forget, retain, gamma=gamma)
    rest = flat(d) - gamma * flat(forget)
    assert abs(float(rest @ flat(forget))) < 1e-4 * float(flat(forget) @ flat(forget))
    expected = flat(retain) + (gamma - inner / float(flat(forget) @ flat(forget))) * flat(forget)
    torch.testing.assert_close(flat(d), expected)
    assert not torch.allclose(flat(d), flat(retain) + gamma * flat(forget), atol=1e-2)


def test_there_is_one_inner_product_over_all_parameters_and_not_one_a_layer() -> None:
    """Orthogonal as a whole, though not in any layer: nothing is projected away."""
    forget = [torch.tensor([1.0, 0.0]), torch.tensor([1.0])]
    retain = [torch.tensor([2.0, 1.0]), torch.tensor([-2.0])]
    d, report = direction(forget, retain)
    torch.testing.assert_close(flat(d), torch.tensor([3.0, 1.0, -1.0]))
    assert report["cosine"] == pytest.approx(0.0)


def test_it_is_the_weighted_sum_where_the_gradients_are_orthogonal() -> None:
    forget = drawn(2)
    other = flat(drawn(3))
    other -= (other @ flat(forget)) / (flat(forget) @ flat(forget)) * flat(forget)
    retain = [part.view_as(f) for part, f in zip(torch.split(other, [15, 7]), forget, strict=True)]
    one, two = (direction(forget, retain, gamma=1.5, priority=p)[0] for p in ("forget", "none"))
    torch.testing.assert_close(flat(one), flat(two))
    torch.testing.assert_close(flat(two), flat(retain) + 1.5 * flat(forget))


def test_forget_upper_is_the_mirror() -> None:
    forget, retain = drawn(4), drawn(5)
    mirrored, _ = direction(forget, retain, gamma=0.7, priority="retain")
    swapped, _ = direction(retain, forget, gamma=0.7, priority="forget")
    torch.testing.assert_close(flat(mirrored), flat(swapped))


def test_without_a_gradient_that_has_priority_the_other_one_is_followed() -> None:
    some, nothing = drawn(6), [torch.zeros(5, 3), torch.zeros(7)]
    for priority, pair in (("forget", (nothing, some)), ("retain", (some, nothing))):
        d, report = direction(*pair, priority=priority)
        torch.testing.assert_close(flat(d), flat(some))
        assert report["cosine"] == 0.0


def test_a_loss_that_reaches_nothing_counts_as_zero() -> None:
    weight = nn.Parameter(torch.tensor([3.0]))
    report = combine([weight], lambda: torch.zeros(()), lambda: weight.sum(), gamma=1.0, priority="forget")
    assert weight.grad is not None
    assert weight.grad.tolist() == [1.0]
    assert (report["forget"], report["retain"]) == (0.0, 3.0)


def test_half_precision_is_combined_in_single() -> None:
    weight = nn.Parameter(torch.zeros(4096, dtype=torch.bfloat16))
    one, two = torch.full((4096,), 1.0), torch.full((4096,), 1.0)
    two[::2] = -1.0
    report = combine(
        [weight],
        lambda: (weight.float() * one).sum(),
        lambda: (weight.float() * two).sum(),
        gamma=1.0,
        priority="forget",
    )
    assert weight.grad is not None
    assert weight.grad.dtype == torch.bfloat16
    assert report["forget_norm"] == pytest.approx(64.0)
    assert report["cosine"] == pytest.approx(0.0)


def test_the_report_is_that_of_the_two_gradients() -> None:
    forget, retain = drawn(7), drawn(8)
    _, report = direction(forget, retain)
    cosine = torch.nn.functional.cosine_similarity(flat(forget), flat(retain), dim=0)
    assert report["cosine"] == pytest.approx(float(cosine), abs=1e-6)
    assert report["forget_norm"] == pytest.approx(float(flat(forget).norm()))
    assert report["retain_norm"] == pytest.approx(float(flat(retain).norm()))
