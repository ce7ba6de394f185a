"""Layers by faster kernels against the ones they stand for."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones import cpu_layers, t5
from genrec_unlearn_bench.backbones.cpu_layers import CpuDropout, CpuLinear, use_cpu_kernels
from genrec_unlearn_bench.backbones.minionerec import recommender as minionerec
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.training import cross_entropy
from tests import small


def linear(bias: bool = True) -> tuple[nn.Linear, nn.Linear, Tensor]:
    """A plain layer, its quick copy, and an input that is no contiguous block."""
    torch.manual_seed(0)
    plain = nn.Linear(40, 24, bias=bias)
    quick = copy.deepcopy(plain)
    use_cpu_kernels(quick)
    return plain, quick, torch.randn(40, 7, 3).permute(2, 1, 0)


@pytest.mark.parametrize("bias", [True, False])
def test_products_and_their_gradients(bias: bool) -> None:
    plain, quick, values = linear(bias)
    assert isinstance(quick, CpuLinear)
    found = []
    for layer in (plain, quick):
        given = values.clone().requires_grad_()
        output = layer(given)
        (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()  # type: ignore[no-untyped-call]
        found.append([output, given.grad, *(parameter.grad for parameter in layer.parameters())])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-5, atol=1e-5)


def test_frozen_parts_get_no_gradients() -> None:
    _, quick, values = linear()
    quick.weight.requires_grad_(False)
    quick(values).sum().backward()  # type: ignore[no-untyped-call]
    assert quick.weight.grad is None
    assert quick.bias.grad is not None


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_pytorch(kind: torch.dtype) -> None:
    plain, quick, values = linear()
    assert torch.equal(quick.to(kind)(values.to(kind)), plain.to(kind)(values.to(kind)))


def test_autocast_and_missing_kernels_are_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, quick, values = linear()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert quick(values).dtype == torch.bfloat16
    monkeypatch.setattr(cpu_layers, "onednn_works", lambda: False)
    assert torch.equal(quick(values), plain(values))


def test_dropout_keeps_the_share_and_the_expectation() -> None:
    layer: nn.Module = nn.Sequential(nn.Dropout(0.3))
    use_cpu_kernels(layer)
    assert isinstance(layer[0], CpuDropout)  # type: ignore[index]
    ones = torch.ones(300, 1001)
    torch.manual_seed(3)
    first = layer(ones)
    torch.manual_seed(3)
    assert torch.equal(layer(ones), first)
    assert not torch.equal(layer(ones), first)
    kept = first > 0
    assert float(kept.float().mean()) == pytest.approx(0.7, abs=0.004)
    # Neighbours, which share a word, are independent.
    assert float((kept[:, :-1] & kept[:, 1:]).float().mean()) == pytest.approx(0.49, abs=0.004)
    torch.testing.assert_close(first.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert torch.equal(layer.eval()(ones), ones)


def test_dropout_has_the_same_mask_backwards() -> None:
    layer = nn.Dropout(0.5)
    use_cpu_kernels(layer)
    values = torch.randn(50, 50, requires_grad=True)
    output = layer(values)
    output.sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(output, values * values.grad)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_dropout_of_nothing_and_of_everything(probability: float) -> None:
    layer = nn.Dropout(probability)
    use_cpu_kernels(layer)
    assert torch.equal(layer(torch.ones(5)), torch.full((5,), 1 - probability))


@pytest.mark.parametrize("family", ["t5", "causal"])
def test_a_model_learns_as_with_ordinary_layers(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss, log-probabilities and gradients agree to rounding; names, ties and lists are the same."""
    request = small.small_request(users=30)
    quick = _made(family)
    with monkeypatch.context() as patch:
        patch.setattr(t5 if family == "t5" else minionerec, "use_cpu_kernels", lambda network: None)
        plain = _made(family)
    kinds = {type(part).__name__ for part in quick.module.modules()}
    assert {"CpuLinear", "CpuT5LayerNorm" if family == "t5" else "CpuQwen2RMSNorm"} < kinds
    assert not any(type(part).__name__.startswith("Processor") for part in plain.module.modules())
    assert list(quick.module.state_dict()) == list(plain.module.state_dict())
    examples = request.train.retain
    histories = examples.histories(quick.history_limit)
    found: list[tuple[Tensor, ...]] = []
    for model in (plain, quick):
        model.module.eval()
        loss = cross_entropy(model.forward(histories, examples.targets))
        loss.backward()  # type: ignore[no-untyped-call]
        gradients: Any = [parameter.grad for parameter in model.module.parameters()]
        found.append((loss, model.target_log_probs(histories, examples.targets), *gradients))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)
    one, two = (model.recommend(histories, 10, beam=10) for model in (plain, quick))
    assert (one.items == two.items).all()


def _made(family: str) -> Recommender:
    return small.t5() if family == "t5" else small.causal()
