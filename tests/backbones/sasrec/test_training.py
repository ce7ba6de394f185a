from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from genrec_unlearn_bench.backbones import sasrec_network as network
from genrec_unlearn_bench.backbones.sasrec_network import softmax_loss


def test_softmax_loss_by_hand() -> None:
    states = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    first = -1.0 + math.log(math.exp(1) + 1 + math.exp(-1))
    second = -2.0 + math.log(1 + math.exp(2) + math.exp(-2))
    loss = softmax_loss(states, torch.tensor([0, 1]), vectors)
    assert math.isclose(float(loss), (first + second) / 2, rel_tol=1e-6)


@pytest.mark.parametrize("scores", [1, 40, 10_000])
def test_softmax_loss_and_its_gradients_are_torchs_own(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_SCORES", scores)
    generator = torch.Generator().manual_seed(0)
    states = (8 * torch.randn(23, 5, generator=generator)).requires_grad_()
    vectors = (8 * torch.randn(17, 5, generator=generator)).requires_grad_()
    targets = torch.randint(17, (23,), generator=generator)
    ours, torchs = softmax_loss(states, targets, vectors), functional.cross_entropy(states @ vectors.T, targets)
    torch.testing.assert_close(ours, torchs)
    found, expected = (torch.autograd.grad(3 * loss, [states, vectors]) for loss in (ours, torchs))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
