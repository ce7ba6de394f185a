"""Faster CPU kernels for the linear, dropout and norm layers of a network in training.

Two thirds of TIGER's training step on a CPU (docs/large.md) were products (``decoding.session`` says why oneDNN's are
faster), dropout's random numbers (PyTorch draws them one by one; here 64 bits serve two elements) and root mean square
norms, which transformers writes as six operations. On other devices and types, and where oneDNN's operator is missing,
the layers are PyTorch's. Weights keep their names. Results differ from PyTorch's in the last bits; dropout draws other
numbers from the same generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from genrec_unlearn_bench.decoding.session import onednn_works

_own_kernels = True
_WORD = 1 << 32
_NORMS = ("T5LayerNorm", "Qwen2RMSNorm")
"""Norms of transformers without mean and bias, by the names of their classes: importing these takes a second each."""


def use_cpu_kernels(network: nn.Module) -> None:
    """Change the linear, dropout and norm layers of ``network`` in place, but no subclasses of them.

    A layer's class is replaced and not the layer, which tied weights, hooks and adapters may refer to.
    """
    for layer in network.modules():
        if type(layer) is nn.Linear:
            layer.__class__ = CpuLinear
        elif type(layer) is nn.Dropout:
            layer.__class__ = CpuDropout
        elif type(layer).__name__ in _NORMS:
            layer.__class__ = _norm_like(type(layer))  # type: ignore[arg-type]


class CpuLinear(nn.Linear):
    """``x W^T + b`` by oneDNN, forwards and backwards."""

    def forward(self, input: Tensor) -> Tensor:
        if not (_plain(input) and _plain(self.weight) and onednn_works()):
            return super().forward(input)
        result: Tensor = _Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return result


class CpuDropout(nn.Dropout):
    """Dropout whose random numbers are halves of 64-bit words; a probability is rounded to a multiple of 2^-32."""

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and 0 < self.p < 1 and _plain(input)):
            return super().forward(input)
        count = input.numel()
        words = torch.empty((count + 1) // 2, dtype=torch.int64).random_(-(1 << 63), None)
        threshold = round(self.p * _WORD) - _WORD // 2
        kept = words.view(torch.int32)[:count].view(input.shape) >= threshold
        return input * kept.to(input.dtype).mul_(1 / (1 - self.p))


class CpuNorm(nn.Module):
    """Root mean square norm as one operation of PyTorch; mixed into the class of the layer that it replaces."""

    weight: nn.Parameter
    variance_epsilon: float

    def forward(self, hidden_states: Tensor) -> Tensor:
        if not (_plain(hidden_states) and _plain(self.weight)):
            result: Tensor = super().forward(hidden_states)
            return result
        return F.rms_norm(hidden_states, self.weight.shape, self.weight, self.variance_epsilon)


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Kernels that have a second derivative, inside the block: PyTorch's own linear layers, attention in plain form."""
    global _own_kernels
    before, _own_kernels = _own_kernels, False
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        _own_kernels = before


@cache
def _norm_like(layer: type[nn.Module]) -> type[nn.Module]:
    """A ``CpuNorm`` that falls back on ``layer``; one a class, so that the norms of a network stay alike."""
    return type(f"Cpu{layer.__name__}", (CpuNorm, layer), {})


def _plain(tensor: Tensor) -> bool:
    """Whether this is an ordinary float32 tensor on a CPU: autocast, sharding and compilers use PyTorch's kernels."""
    ordinary = _own_kernels and type(tensor) in (Tensor, nn.Parameter)
    elsewhere = torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling()
    return ordinary and tensor.device.type == "cpu" and tensor.dtype == torch.float32 and not elsewhere


class _Product(torch.autograd.Function):
    """oneDNN's linear operator has no gradient of its own; its gradients are two more products."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(values, weight)
        return _product(values, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        of_values = _product(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        # This way round is the faster one of the two.
        of_weight = _product(values.flatten(0, -2).t(), rows.t()).t() if ctx.needs_input_grad[1] else None
        return of_values, of_weight, rows.sum(0) if ctx.needs_input_grad[2] else None


def _product(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """[..., K] x [N, K] -> [..., N]."""
    result: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return result
