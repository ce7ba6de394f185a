"""Which weights are rounded: every linear layer's, in every family, and nothing else."""

from __future__ import annotations

import importlib.util
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, LoraShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.quantised import (
    linear_layers,
    normal_float,
    quantised,
    quantised_ranks,
    round_to_nearest,
)
from genrec_unlearn_bench.progress import Progress
from tests import planted
from tests.evaluation import quantised_world as world
from tests.small import causal, changed, t5


def untouched(name: str) -> bool:
    """Norms, relative positions, biases."""
    return "norm" in name or "relative_attention_bias" in name or name.endswith(".bias")


@pytest.mark.parametrize("model", [t5(2), causal(2)], ids=["t5", "causal"])
def test_every_matrix_of_a_linear_layer_and_nothing_else(model: Recommender) -> None:
    before = {name: parameter.clone() for name, parameter in model.module.named_parameters()}
    copy = quantised(model, partial(round_to_nearest, bits=4))
    assert changed(copy.module, model.module) == {name for name in before if not untouched(name)}
    for name, parameter in copy.module.named_parameters():
        if not untouched(name):
            assert torch.equal(parameter, round_to_nearest(before[name], 4)), name
    # The model itself keeps its bits, and the head is still the embedding, rounded once.
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.module.named_parameters())
    assert copy.module.get_output_embeddings().weight is copy.module.get_input_embeddings().weight  # type: ignore[operator]


def test_a_separate_embedding_keeps_its_bits() -> None:
    network = NetworkShape(hidden=24, ffn=32, layers=1, heads=4, groups=2, tied=False)
    model = CausalRecommender.fresh(CausalShape(network=network, history_limit=4), planted.sids(), seed=0)
    names = changed(quantised(model, partial(round_to_nearest, bits=4)).module, model.module)
    assert "lm_head.weight" in names
    assert "model.embed_tokens.weight" not in names


def test_adapters_are_worked_in_first() -> None:
    network = NetworkShape(hidden=24, ffn=32, layers=1, heads=4, groups=2)
    shape = CausalShape(network=network, history_limit=4, lora=LoraShape(rank=2, alpha=4))
    model = CausalRecommender.fresh(shape, planted.sids(), seed=0)
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.05, generator=torch.Generator().manual_seed(1))
    layer = model.model.model.layers[0].mlp.down_proj
    merged: Tensor = layer.base_layer.weight + layer.get_delta_weight("default")
    copy = quantised(model, partial(round_to_nearest, bits=4))
    assert isinstance(copy, CausalRecommender)
    rounded = copy.model.model.layers[0].mlp.down_proj
    assert torch.allclose(rounded.base_layer.weight, round_to_nearest(merged.detach(), 4), atol=1e-6)
    found = list(linear_layers(copy.module))
    assert rounded.base_layer in found
    assert not any(part in found for name, part in copy.module.named_modules() if ".lora_" in name)
    # What is served multiplies with the rounded matrix and adds no adapter to it.
    states = torch.randn(3, 32, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(rounded(states), nn.functional.linear(states, rounded.base_layer.weight), atol=1e-6)
    assert not layer.merged


def test_by_hand() -> None:
    # Row scales at 4 bits: 7 / 7 = 1 and 0.7 / 7 = 0.1; halves go to the even level.
    weight = torch.tensor([[7.0, -3.4, 0.5, 1.5], [0.7, -0.34, 0.06, 0.0], [0.0, 0.0, 0.0, 0.0]])
    wanted = torch.tensor([[7.0, -3.0, 0.0, 2.0], [0.7, -0.3, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert torch.allclose(round_to_nearest(weight, 4), wanted, atol=1e-7)


def test_the_bits_of_the_whole_model_are_those_of_its_blocks() -> None:
    network = NetworkShape(hidden=24, ffn=32, layers=1, heads=4, groups=2)
    shape = CausalShape(network=network, history_limit=4, precision="bfloat16", lora=LoraShape(rank=2, alpha=4))
    model = CausalRecommender.fresh(shape, planted.sids(), seed=0)
    assert next(model.module.parameters()).dtype == torch.float32
    found = quantised_ranks(world.subject(model), None, retain_examples=2, progress=Progress())
    assert found["bits"].tolist() == [16]


@pytest.mark.parametrize("bits", [4, 8])
def test_agrees_with_torch(bits: int) -> None:
    weight = torch.randn(12, 40, generator=torch.Generator().manual_seed(0)) * torch.logspace(-2, 1, 12)[:, None]
    top = 2 ** (bits - 1) - 1
    scale = weight.abs().amax(1) / top
    zero = torch.zeros(12, dtype=torch.int32)
    peer = torch.fake_quantize_per_channel_affine(weight, scale, zero, 0, -top, top)
    found = round_to_nearest(weight, bits)
    assert torch.allclose(found, peer, rtol=0, atol=1e-6)
    # A scale common to the matrix, or one for each input, gives other numbers.
    common = torch.fake_quantize_per_tensor_affine(weight, float(weight.abs().max() / top), 0, -top, top)
    assert not torch.allclose(found, common, rtol=0, atol=1e-3)
    assert not torch.allclose(found, round_to_nearest(weight.T, bits).T, rtol=0, atol=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
def test_levels_error_and_fixed_points(bits: int) -> None:
    weight = torch.randn(6, 500, generator=torch.Generator().manual_seed(1))
    found = round_to_nearest(weight, bits)
    step = weight.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
    assert (found - weight).abs().le(step / 2 * (1 + 1e-5)).all()
    assert max(len(np.unique(np.round((row / size).numpy(), 3))) for row, size in zip(found, step, strict=True)) <= 255
    assert torch.equal(round_to_nearest(found, bits), found)
    half = weight.to(torch.bfloat16)
    assert round_to_nearest(half, bits).dtype == torch.bfloat16


def test_normal_float_says_what_it_lacks() -> None:
    lacking = "not installed" if importlib.util.find_spec("bitsandbytes") is None else "CUDA device"
    with pytest.raises(NotMeasurable, match=lacking):
        normal_float(torch.ones(2, 64))
