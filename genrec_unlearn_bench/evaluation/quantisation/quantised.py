"""A copy of a recommender whose linear layers have fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import Recommender

__all__ = ["linear_layers", "quantised"]


def quantised(recommender: Recommender, rounding: Callable[[Tensor], Tensor]) -> Recommender:
    """A clone with every linear layer's matrix rounded: attention, feed-forward and output head.

    Low-rank adapters are worked into their matrices first, as they are before a model is quantised for serving.
    Norms, biases, relative positions and embeddings keep their bits, as in Zhang et al. (2024) and in the libraries
    that quantise. One matrix that is both output head and embedding (TIGER, Qwen2.5 up to 3B) is a linear layer's, and
    stays one: each of its rows is an output channel of the head and a token's embedding, rounded with one scale either
    way. Zhang et al. leave the head alone; here it holds a large part of a small model, and the tokens of the concept.
    """
    copy = recommender.clone()
    done: set[int] = set()
    with torch.no_grad():
        _merge_adapters(copy.module)
        for layer in linear_layers(copy.module):
            if id(layer.weight) not in done:
                done.add(id(layer.weight))
                layer.weight.copy_(rounding(layer.weight))
    return copy


def linear_layers(module: nn.Module) -> Iterator[nn.Linear]:
    """The network's linear layers, without the two small ones inside each low-rank adapter."""
    inside = {
        id(part)
        for layer in _adapted(module)
        for part in layer.modules()
        if part is not getattr(layer, "base_layer", 0)
    }
    for part in module.modules():
        if isinstance(part, nn.Linear) and id(part) not in inside:
            yield part


def _adapted(module: nn.Module) -> list[nn.Module]:
    return [part for part in module.modules() if hasattr(part, "get_delta_weight")]


def _merge_adapters(module: nn.Module) -> None:
    for part in _adapted(module):
        layer: Any = part
        if not layer.merged and not layer.disable_adapters:
            layer.merge()
