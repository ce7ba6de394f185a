"""Adapters change what they are in, nothing else, and leave a plain network behind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.minionerec.backbone import LoraShape
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.unlearning.lora import LowRank, all_blocks, early_blocks, linear_names
from tests.backbones.minionerec.models import scratch
from tests.planted import sids

torch.set_num_threads(1)
ROWS = Histories.of([[3, 9, 9, 1], [7], [1, 2, 3, 4, 5], [30, 31, 32]])
TARGETS = torch.tensor([5, 6, 7, 8]).numpy()


def t5(layers: int = 2) -> T5Recommender:
    shape = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=layers, heads=4, dropout=0.0, history_limit=4)
    model = T5Recommender.fresh(shape, sids(), seed=0)
    model.module.eval()
    return model


def lora_mor() -> Recommender:
    """A causal model that already carries adapters on some layers, with something in them."""
    model = scratch(lora=LoraShape(rank=4, alpha=8, targets=("q_proj", "down_proj")))
    assert any("lora_B" in name for name in model.module.state_dict())
    return model


MODELS = {"t5": t5, "mor": scratch, "mor-lora": lora_mor}


def logits(model: Recommender) -> torch.Tensor:
    with torch.no_grad():
        return model.forward(ROWS, TARGETS).logits


def adapters(model: Recommender, **changes: Any) -> LowRank:
    settings: dict[str, Any] = {"rank": 4, "scale": 0.5, "seed": 1} | changes
    return LowRank(model.module, linear_names(early_blocks(model)), **settings)


def stir(low: LowRank) -> None:
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in low.parameters:
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))


@pytest.mark.parametrize("name", MODELS)
def test_off_is_the_original_bit_for_bit_and_merged_is_the_adapted(name: str) -> None:
    model: Recommender = MODELS[name]()
    plain = logits(model)
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    required = {key: value.requires_grad for key, value in model.module.named_parameters()}
    low = adapters(model)
    targeted = linear_names(early_blocks(model))
    assert torch.equal(logits(model), plain), "the second matrix begins at zero"
    assert {id(p) for p in model.module.parameters() if p.requires_grad} == {id(p) for p in low.parameters}
    assert len(low.parameters) == 2 * len(targeted)
    stir(low)
    changed = logits(model)
    assert not torch.allclose(changed, plain, atol=1e-2)
    with low.off():
        assert torch.equal(logits(model), plain)
    assert torch.equal(logits(model), changed), "on again"
    low.merge()
    torch.testing.assert_close(logits(model), changed, atol=1e-5, rtol=1e-5)
    after = model.module.state_dict()
    assert list(after) == list(before)
    moved = {key for key in after if not torch.equal(after[key], before[key])}
    assert moved == {
        f"{part}.base_layer.weight" if f"{part}.base_layer.weight" in before else f"{part}.weight" for part in targeted
    }
    assert {key: value.requires_grad for key, value in model.module.named_parameters()} == required
    again = adapters(model)
    again.merge()
    assert list(model.module.state_dict()) == list(before), "a second time, under the same name"


def test_only_the_layers_of_early_blocks_have_adapters() -> None:
    model = t5(4)
    names = linear_names(early_blocks(model))
    attention = [f"{part}.{x}" for part in ("SelfAttention", "EncDecAttention") for x in "qkvo"]
    expected = [f"encoder.block.1.layer.0.SelfAttention.{x}" for x in "qkvo"]
    expected += [f"encoder.block.1.layer.1.DenseReluDense.{x}" for x in ("wi", "wo")]
    expected += [f"decoder.block.1.layer.{0 if 'Self' in a else 1}.{a}" for a in attention]
    expected += [f"decoder.block.1.layer.2.DenseReluDense.{x}" for x in ("wi", "wo")]
    assert sorted(names) == sorted(expected)
    adapters(model)
    assert sorted(key for key, part in model.module.named_modules() if hasattr(part, "lora_A")) == sorted(expected)
    assert len(linear_names(all_blocks(model))) == 4 * len(expected)


def test_an_adapted_layer_is_named_once_and_its_own_adapter_trains_no_further() -> None:
    model = lora_mor()
    names = linear_names(early_blocks(model))
    assert not any("lora" in name or "base_layer" in name for name in names)
    assert len(names) == 7
    low = adapters(model)
    assert not any(p.requires_grad for key, p in model.module.named_parameters() if ".default." in key)
    with low.off():
        layer: Any = model.module.get_submodule(next(name for name in names if name.endswith("q_proj")))
        assert list(layer.active_adapters) == ["default"]
    assert list(layer.active_adapters) == ["default", "unlearning"]


@pytest.mark.parametrize(
    ("depth", "first", "last"), [(1, 0, 0), (2, 0, 0), (3, 1, 1), (4, 1, 1), (8, 1, 1), (28, 4, 6), (32, 4, 7)]
)
def test_early_is_an_eighth_to_a_quarter_of_the_depth(depth: int, first: int, last: int) -> None:
    from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, NetworkShape
    from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender

    network = NetworkShape(hidden=8, ffn=8, layers=depth, heads=2, groups=1)
    model = CausalRecommender.fresh(CausalShape(network=network), sids(), seed=0)
    assert [block.index for block in early_blocks(model)] == list(range(first, last + 1))


def test_the_same_seed_gives_the_same_matrices_and_no_global_state_moves() -> None:
    state = torch.random.get_rng_state()
    one, two, other = adapters(t5()), adapters(t5()), adapters(t5(), seed=2)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters, two.parameters, strict=True))
    assert not torch.equal(one.parameters[0], other.parameters[0])


def test_half_precision_weights_get_float32_adapters() -> None:
    model = scratch(precision="bfloat16")
    low = adapters(model)
    assert {p.dtype for p in low.parameters} == {torch.float32}
    stir(low)
    changed = logits(model)
    low.merge()
    assert {p.dtype for p in model.module.parameters() if isinstance(p, nn.Parameter)} == {torch.bfloat16}
    torch.testing.assert_close(logits(model), changed, atol=0.3, rtol=0.1)
