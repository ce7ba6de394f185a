"""A recommender with fewer bits in its linear layers, and the ranks of the test targets under it.

Quantisation is simulated, as is usual for measuring its effect on quality: a weight becomes the number that its few
bits stand for, in the type that it had. All rounding works on the matrix of a linear layer, [out, in].
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.evaluation.decode import decode, given_histories
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.ranking import WIDE_BEAM
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.lora import adapted_layers
from genrec_unlearn_bench.unlearning.sampling import at_most

BLOCK = 64
"""Weights that share a scale in NF4, as in QLoRA (Dettmers et al. 2023, arXiv 2305.14314)."""


def quantised_ranks(
    subject: Subject, scheme: str | None, *, retain_examples: int | None, progress: Progress
) -> Mapping[str, NDArray[np.int64]]:
    """Rank of every target in its list at beam 50 in the served SID space, 0 where it is not there.

    ``scheme`` is int8, int4 or nf4; None measures the model as it is. Returns ``forget`` [F] for the whole forget test,
    ``retain`` [R] for a sample of the retain test, the same for every model of a seed, so that differences are paired,
    and ``bits`` [1] of the blocks' weights. Raises NotMeasurable where the scheme cannot be had.
    """
    recommender, test = subject.recommender, subject.split.test
    # Embeddings, and what is trained beside adapters, may be wider than the blocks.
    bits = min(parameter.element_size() for parameter in recommender.module.parameters()) * 8
    if scheme is not None:
        bits = 8 if scheme == "int8" else 4
        recommender = quantised(recommender, normal_float if scheme == "nf4" else partial(round_to_nearest, bits=bits))
    recommender.module.eval()
    most = len(test.retain) if retain_examples is None else retain_examples
    retain = at_most(test.retain, most, subject.seed, "quantisation", "retain")
    found = {"bits": np.array([bits], dtype=np.int64)}
    for name, examples in ((Group.FORGET.value, test.forget), (Group.RETAIN.value, retain)):
        label, histories = f"{name} test, {scheme or 'full'}", given_histories(recommender, examples)
        ranking = decode(recommender, histories, beam=WIDE_BEAM, label=label, progress=progress)
        found[name] = np.asarray(ranking.ranks(examples.targets), dtype=np.int64)
    return found


def quantised(recommender: Recommender, rounding: Callable[[Tensor], Tensor]) -> Recommender:
    """A clone with every linear layer's matrix rounded: attention, feed-forward and output head.

    Low-rank adapters are worked into their matrices first. Norms, biases, relative positions and embeddings keep their
    bits, as in Zhang et al. (2024). One matrix that is both output head and embedding (TIGER, Qwen2.5 up to 3B) is a
    linear layer's, with one scale for each row. Zhang et al. leave the head alone; here it holds a large part of a
    small model, and the tokens of the concept.
    """
    copy = recommender.clone()
    done: set[int] = set()
    with torch.no_grad():
        for adapter in adapted_layers(copy.module):
            if not adapter.merged and not adapter.disable_adapters:
                adapter.merge()
        for layer in linear_layers(copy.module):
            if id(layer.weight) not in done:
                done.add(id(layer.weight))
                layer.weight.copy_(rounding(layer.weight))
    return copy


def linear_layers(module: nn.Module) -> Iterator[nn.Linear]:
    """The network's linear layers, without the two small ones inside each low-rank adapter."""
    inside = {id(part) for layer in adapted_layers(module) for part in layer.modules() if part is not layer.base_layer}
    for part in module.modules():
        if isinstance(part, nn.Linear) and id(part) not in inside:
            yield part


def round_to_nearest(weight: Tensor, bits: int) -> Tensor:
    """Symmetric, one scale for each output channel (row): levels -top … top times ``max |row| / top``.

    ``top`` is 127 at 8 bits and 7 at 4. The lowest code (-128, -8) stays unused, so that the grid is symmetric, 0 is
    on it, and quantised weights quantise to themselves. A row of zeros stays one.
    """
    top = 2 ** (bits - 1) - 1
    values = weight.float()
    largest = values.abs().amax(dim=1, keepdim=True)
    scale = torch.where(largest > 0, largest / top, torch.ones_like(largest))
    return ((values / scale).round().clamp(-top, top) * scale).to(weight.dtype)


def normal_float(weight: Tensor) -> Tensor:
    """4-bit NormalFloat in blocks of 64, by bitsandbytes' own kernels, dequantised as its linear layers do.

    Raises NotMeasurable where the library or a CUDA device is missing.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise NotMeasurable("NF4 is quantised by bitsandbytes, which is not installed")
    if weight.device.type != "cuda":
        raise NotMeasurable(f"NF4 is measured on a CUDA device, and the model lies on {weight.device.type!r}")
    kernels: Any = importlib.import_module("bitsandbytes.functional")
    packed, state = kernels.quantize_4bit(weight.contiguous(), blocksize=BLOCK, quant_type="nf4")
    restored: Tensor = kernels.dequantize_4bit(packed, state)
    return restored.to(weight.dtype)
