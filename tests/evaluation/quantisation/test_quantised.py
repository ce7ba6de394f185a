"""Which weights are rounded: every linear layer's, in every family, and nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.minionerec.config import CausalShape, LoraShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.evaluation.quantisation.quantised import linear_layers, quantised
from genrec_unlearn_bench.evaluation.quantisation.rounding import round_to_nearest, rounding_of
from tests import planted
from tests.small import causal, changed, t5


def untouched(name: str) -> bool:
    """Norms, relative positions, biases."""
    return "norm" in name or "relative_attention_bias" in name or name.endswith(".bias")


@pytest.mark.parametrize("model", [t5(2), causal(2)], ids=["t5", "causal"])
def test_every_matrix_of_a_linear_layer_and_nothing_else(model: Recommender) -> None:
    before = {name: parameter.clone() for name, parameter in model.module.named_parameters()}
    copy = quantised(model, rounding_of("int4"))
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
    names = changed(quantised(model, rounding_of("int4")).module, model.module)
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
    copy = quantised(model, rounding_of("int4"))
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
