"""Layers by faster kernels against the ones they stand for."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones import cpu_kernels, cpu_layers, t5
from genrec_unlearn_bench.backbones.config import TrainingConfig
from genrec_unlearn_bench.backbones.cpu_layers import CpuDropout, CpuLinear, use_cpu_kernels
from genrec_unlearn_bench.backbones.minionerec import recommender as minionerec
from genrec_unlearn_bench.backbones.minionerec.training import PrefixChains
from genrec_unlearn_bench.backbones.training import NextItem, cross_entropy, train_recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.anatomy import anatomy
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
    # Neighbours, of which four share a word, are independent.
    for apart in (1, 2, 3, 4):
        assert float((kept[:, :-apart] & kept[:, apart:]).float().mean()) == pytest.approx(0.49, abs=0.004)
    torch.testing.assert_close(first.unique(), torch.tensor([0.0, 65536 / (65536 - 19661)]))
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


@pytest.mark.parametrize("family", ["t5", "causal"])
def test_dropout_and_its_gradients_are_those_of_transformers(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training, with the same mask for the same shape on both sides; rows of several lengths, so with padding."""

    def mask(shape: torch.Size, p: float) -> Tensor:
        drawn = torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))
        return (drawn >= p).float() / (1 - p)

    def attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, dropout_p: float, **given: Any) -> Tensor:
        scores = query @ key.transpose(2, 3) * given["scale"]
        if given["is_causal"]:
            attn_mask = torch.ones(scores.shape[2:], dtype=torch.bool).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return scores.softmax(-1) * mask(scores.shape, dropout_p) @ value

    for place in (cpu_kernels, cpu_layers):
        monkeypatch.setattr(place, "dropout_mask", mask)
    monkeypatch.setattr(cpu_kernels, "_factor", lambda p: 1 / (1 - p))
    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", attention)
    found: list[list[Tensor]] = []
    examples = small.small_request(users=30).train.retain
    for whole in (True, False):
        model = _made(family, dropout=0.25)
        task = NextItem(model, examples) if family == "t5" else PrefixChains(model, examples)
        model.module.train()
        if not whole:
            monkeypatch.setattr(cpu_layers, "_whole", lambda *parts: False)
        loss = task.loss(np.arange(len(task.lengths)))
        loss.backward()  # type: ignore[no-untyped-call]
        found.append([loss.detach(), *(part.grad for part in model.module.parameters() if part.grad is not None)])
    assert len(found[0]) == len(found[1])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", ["t5", "causal"])
def test_what_hooks_read_is_computed_part_by_part(family: str) -> None:
    request = small.small_request(users=4)
    model = _made(family)
    seen: list[str] = []
    inner = anatomy(model).decoder[0].down
    inner.register_forward_hook(lambda part, given, output: seen.append(type(part).__name__))
    examples = request.train.retain
    model.forward(examples.histories(model.history_limit), examples.targets)
    assert seen == ["CpuLinear"]


@pytest.mark.parametrize("way", ["backward pre-hook", "another forward"])
@pytest.mark.parametrize("family", ["t5", "causal"])
def test_whoever_watches_or_replaces_a_part_finds_it_called(family: str, way: str) -> None:
    model, calls = _made(family), []
    part = next(part for name, part in model.module.named_modules() if name.endswith((".v", ".v_proj")))
    if way == "another forward":
        before = part.forward
        part.forward = lambda values: calls.append(1) or before(values)
    else:
        part.register_full_backward_pre_hook(lambda *_: calls.append(1))
    NextItem(model, small.small_request(users=4).train.retain).loss(np.arange(4)).backward()
    assert calls


@pytest.mark.parametrize("family", ["t5", "causal"])
def test_second_derivatives_are_refused_and_never_left_out(family: str) -> None:
    model = _made(family, 0.0)
    parameters = [weight for weight in model.module.parameters() if weight.requires_grad]

    def product_with_hessian() -> list[Tensor | None]:
        loss = NextItem(model, small.small_request(users=4).train.retain).loss(np.arange(4))
        first = torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
        total = sum(one.sum() for one in first if one is not None)
        return list(torch.autograd.grad(total, parameters, allow_unused=True))  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="no second derivative"):
        product_with_hessian()
    with cpu_layers.twice_differentiable():
        assert any(one is not None and bool(one.any()) for one in product_with_hessian())


def test_products_may_be_changed_in_place_may_be_empty_and_mind_strides() -> None:
    _, quick, values = linear()
    torch.testing.assert_close(quick(values).mul_(2), 2 * quick(values))
    empty = torch.zeros(0, 40, requires_grad=True)
    quick(empty).sum().backward()
    assert quick.weight.grad is not None
    assert not quick.weight.grad.any()
    with torch.no_grad():
        plain = quick(values) - quick.bias
        quick.bias = nn.Parameter(torch.randn(24, 3)[:, 1])
        torch.testing.assert_close(quick(values), plain + quick.bias)


@pytest.mark.parametrize("native", [True, False])
def test_bfloat16_rounds_operands_and_results_of_products(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if native and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no bfloat16 products")
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: native)
    kinds, multiply = [], torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(
        torch.ops.mkldnn, "_linear_pointwise", lambda *given: kinds.append(given[0].dtype) or multiply(*given)
    )
    torch.manual_seed(0)
    values, weight = torch.randn(6, 40), torch.randn(24, 40)
    exact = cpu_kernels.product(values, weight)
    with cpu_kernels.bfloat16_products():
        rounded = cpu_kernels.product(values, weight)
    assert torch.equal(cpu_kernels.product(values, weight), exact)
    assert kinds == [torch.float32, torch.bfloat16 if native else torch.float32, torch.float32]
    assert torch.equal(rounded, rounded.bfloat16().float())
    # One unit in the last of bfloat16's eight places: the sums themselves are in float32.
    expected = values.bfloat16().double() @ weight.bfloat16().double().t()
    torch.testing.assert_close(rounded.double(), expected, rtol=2**-8, atol=1e-5)
    assert float((rounded - exact).abs().max()) > 1e-3


@pytest.mark.parametrize(("precision", "wanted"), [("float32", {False}), ("bfloat16", {True})])
def test_the_configured_precision_holds_forwards_and_backwards(
    precision: str, wanted: set[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples, seen = small.small_request(users=6).train.retain, []
    plain = cpu_kernels.weight_gradient
    for place in (cpu_kernels, cpu_layers):
        monkeypatch.setattr(
            place, "weight_gradient", lambda *given: seen.append(cpu_kernels._bfloat16) or plain(*given)
        )
    config = TrainingConfig(epochs=1, evaluations=1, precision=precision)  # type: ignore[arg-type]
    train_recommender(_made("t5"), config, train=examples, valid=examples, seed=0, device="cpu", progress=Progress())
    assert set(seen) == wanted
    assert not cpu_kernels._bfloat16


def _made(family: str, dropout: float | None = None) -> Any:
    made: Any = small.t5() if family == "t5" else small.causal()
    if dropout is None:
        return made
    shape = made.shape.model_copy(update={"dropout": dropout})
    other = type(made).fresh(shape, made.sids, seed=0)
    other.module.load_state_dict(made.module.state_dict())
    return other
