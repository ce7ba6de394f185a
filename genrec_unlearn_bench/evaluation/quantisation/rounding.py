"""Weights with fewer bits: what each way to quantise makes of one matrix.

Quantisation is simulated, as is usual for measuring its effect on quality: a weight becomes the number that its few
bits stand for, in the type that it had. All rounding works on the matrix of a linear layer, [out, in].
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from genrec_unlearn_bench.evaluation.measurement import NotMeasurable

__all__ = ["BLOCK", "normal_float", "round_to_nearest", "rounding_of"]

BLOCK = 64
"""Weights that share a scale in NF4, as in QLoRA (Dettmers et al. 2023, arXiv 2305.14314)."""


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
    """4-bit NormalFloat in blocks of 64, by bitsandbytes' own kernels.

    Its linear layers multiply with the dequantised weights, which is what this gives; scales are not quantised again.

    Raises:
        NotMeasurable: The library or a CUDA device is missing.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise NotMeasurable("NF4 is quantised by bitsandbytes, which is not installed")
    if weight.device.type != "cuda":
        raise NotMeasurable(f"NF4 is measured on a CUDA device, and the model lies on {weight.device.type!r}")
    kernels: Any = importlib.import_module("bitsandbytes.functional")
    packed, state = kernels.quantize_4bit(weight.contiguous(), blocksize=BLOCK, quant_type="nf4")
    restored: Tensor = kernels.dequantize_4bit(packed, state)
    return restored.to(weight.dtype)


def rounding_of(scheme: str) -> Callable[[Tensor], Tensor]:
    """int8, int4 or nf4 as a function of one matrix."""
    if scheme == "nf4":
        return normal_float
    bits = int(scheme.removeprefix("int"))
    return lambda weight: round_to_nearest(weight, bits)
