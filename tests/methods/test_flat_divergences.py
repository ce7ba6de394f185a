"""FLAT's divergences against suprema found by search, and against what minimising them must do to the answers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import lambertw

from genrec_unlearn_bench.methods.flat import DIVERGENCES

Function = Callable[[np.ndarray], np.ndarray]

GENERATORS: dict[str, Function] = {
    "total-variation": lambda u: np.abs(u - 1) / 2,
    "kl": lambda u: u * np.log(u),
    "reverse-kl": lambda u: -np.log(u),
    "jensen-shannon": lambda u: u * np.log(u) - (u + 1) * np.log((u + 1) / 2),
    "pearson": lambda u: (u - 1) ** 2,
    "neyman": lambda u: (u - 1) ** 2 / u,
    "squared-hellinger": lambda u: (np.sqrt(u) - 1) ** 2,
    "jeffrey": lambda u: (u - 1) * np.log(u),
}
COMPOSED: dict[str, Function] = {
    "total-variation": lambda v: np.tanh(v) / 2,
    "kl": lambda v: np.exp(v - 1),
    "reverse-kl": lambda v: v - 1,
    "jensen-shannon": lambda v: v + np.log((1 + np.exp(-v)) / 2),
    "pearson": lambda v: v**2 / 4 + v,
    "neyman": lambda v: 2 - 2 * np.exp(-v / 2),
    "squared-hellinger": lambda v: np.exp(v) - 1,
    "jeffrey": lambda v: (lambda w: (w + 1 / w + v - 2).real)(lambertw(np.exp(1 - v))),
}
PROBABILITIES = torch.linspace(0, 1, 11, dtype=torch.float64)


def test_all_eight_are_there() -> None:
    assert set(DIVERGENCES) == set(GENERATORS) == set(COMPOSED)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_conjugate_is_the_supremum_of_ut_minus_f(name: str) -> None:
    divergence, f = DIVERGENCES[name], GENERATORS[name]
    u = np.geomspace(1e-6, 1e4, 400_001)
    values = f(u)
    for t in divergence.activation(PROBABILITIES):
        supremum = (u * float(t) - values).max()
        assert float(divergence.conjugate(t)) == pytest.approx(supremum, abs=2e-3), float(t)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_closed_forms_of_the_table_hold(name: str) -> None:
    divergence = DIVERGENCES[name]
    found = divergence.conjugate(divergence.activation(PROBABILITIES))
    np.testing.assert_allclose(found.numpy(), COMPOSED[name](PROBABILITIES.numpy()), atol=1e-9)


@pytest.mark.parametrize("name", GENERATORS)
def test_descent_raises_the_good_answer_and_lowers_the_forgotten_one(name: str) -> None:
    """The repository's reverse KL, Neyman and squared Hellinger fail this."""
    good = torch.tensor([0.0, 0.2, 0.9], dtype=torch.float64, requires_grad=True)
    forgotten = torch.tensor([0.0, 0.7, 0.9], dtype=torch.float64, requires_grad=True)
    DIVERGENCES[name].loss(good, forgotten).backward()  # type: ignore[no-untyped-call]
    assert good.grad is not None
    assert forgotten.grad is not None
    assert (good.grad < 0).all()
    assert (forgotten.grad > 0).all()


@pytest.mark.parametrize("name", GENERATORS)
def test_gradients_are_those_of_the_functions(name: str) -> None:
    """Jeffrey's comes from the envelope theorem, not from differentiating a solver."""
    points = torch.linspace(0.05, 0.95, 5, dtype=torch.float64, requires_grad=True)
    divergence = DIVERGENCES[name]
    assert torch.autograd.gradcheck(lambda v: divergence.conjugate(divergence.activation(v)), (points,), atol=1e-6)


def test_total_variation_is_nothing_between_equals_and_bounded() -> None:
    loss = DIVERGENCES["total-variation"].loss
    p = torch.tensor([0.0, 0.3, 1.0])
    assert float(loss(p, p)) == 0.0
    for good, forgotten in ((0.0, 1.0), (1.0, 0.0)):
        value = float(loss(torch.tensor([good]), torch.tensor([forgotten])))
        assert value == pytest.approx((math.tanh(forgotten) - math.tanh(good)) / 2, rel=1e-6)
        assert abs(value) < 0.5
