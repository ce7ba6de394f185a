"""Layers of T5 and Qwen2 that use ``cpu_kernels`` where they can, and are those of PyTorch and transformers elsewhere.

Products are oneDNN's (``decoding.session`` says why they are faster). A whole attention or feed-forward layer is one
step where gradients are wanted, nothing reads or changes its parts through hooks, and its linear layers are plain ones
(no adapters). On other devices and types, and where oneDNN's operator is missing, nothing is changed. Weights keep
their names. Results differ from PyTorch's in the last bits; dropout draws other numbers from the same generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from genrec_unlearn_bench.backbones.cpu_kernels import (
    Attention,
    FeedForward,
    dropout_mask,
    once_differentiable,
    product,
    weight_gradient,
)
from genrec_unlearn_bench.backbones.packing import watched
from genrec_unlearn_bench.decoding.session import onednn_works

_own_kernels = True
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
            layer.__class__ = _like(CpuNorm, type(layer))  # type: ignore[arg-type]
        elif type(layer).__name__ in _BLOCKS:
            layer.__class__ = _like(_BLOCKS[type(layer).__name__], type(layer))  # type: ignore[arg-type]


class CpuLinear(nn.Linear):
    """``x W^T + b`` by oneDNN, forwards and backwards."""

    def forward(self, input: Tensor) -> Tensor:
        if not (_plain(input) and _plain(self.weight) and onednn_works()):
            return super().forward(input)
        result: Tensor = _Product.apply(input, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return result


class CpuDropout(nn.Dropout):
    """Dropout by ``dropout_mask``."""

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and 0 < self.p < 1 and _plain(input)):
            return super().forward(input)
        return input * dropout_mask(input.shape, self.p)


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


class CpuT5FeedForward(nn.Module):
    """T5's feed-forward layer with ReLU."""

    DenseReluDense: Any
    layer_norm: Any
    dropout: Any

    def forward(self, hidden_states: Tensor) -> Tensor:
        inner, norm, drop = self.DenseReluDense, self.layer_norm, self.dropout
        plain = type(inner).__name__ == "T5DenseActDense" and type(inner.act) is nn.ReLU
        if not (plain and _whole(self, hidden_states, inner.wi, inner.wo)):
            result: Tensor = super().forward(hidden_states)
            return result
        p = drop.p if self.training else 0.0
        return _feed_forward(hidden_states, norm, inner.wi.weight, None, inner.wo.weight, p)


class CpuT5Attention(nn.Module):
    """T5's layer of attention to itself or to the encoder's output."""

    SelfAttention: Any
    EncDecAttention: Any
    layer_norm: Any
    dropout: Any

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        past_key_values: Any = None,
        **options: Any,
    ) -> Any:
        own = self.SelfAttention if key_value_states is None else self.EncDecAttention
        if past_key_values is not None or not _whole(self, hidden_states, own.q, own.k, own.v, own.o):
            given = () if key_value_states is None else (key_value_states,)
            rest = {"attention_mask": attention_mask, "position_bias": position_bias, **options}
            return super().forward(hidden_states, *given, past_key_values=past_key_values, **rest)
        count, weights = hidden_states.shape[1], [own.q.weight, own.k.weight, own.v.weight]
        if position_bias is None and own.has_relative_attention_bias:
            position_bias = own.compute_bias(count, count, device=hidden_states.device)
        if attention_mask is None and own.is_causal:
            attention_mask = torch.ones(count, count, dtype=torch.bool).tril()
        first = torch.cat(weights) if key_value_states is None else weights[0]
        second = None if key_value_states is None else torch.cat(weights[1:])
        rates = (self.dropout.p, own.dropout) if self.training else (0.0, 0.0)
        parts = (hidden_states, key_value_states, self.layer_norm.weight, first, second, None, own.o.weight)
        settings = (attention_mask, None, self.layer_norm.variance_epsilon, own.n_heads, 1.0, *rates)
        states = Attention.apply(*parts, position_bias, *settings)  # type: ignore[no-untyped-call]
        return states, position_bias, None


class CpuQwenBlock(nn.Module):
    """Qwen2's block of attention and feed-forward layer.

    Where ``read`` [P] says which of the B S positions the model's states are read at, the last block gives [P, D]:
    nothing else needs its feed-forward layer.
    """

    self_attn: Any
    mlp: Any
    input_layernorm: Any
    post_attention_layernorm: Any

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = False,
        position_embeddings: Any = None,
        read: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        own, mlp = self.self_attn, self.mlp
        projections = (own.q_proj, own.k_proj, own.v_proj)
        parts = (*projections, own.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        silu = type(mlp.act_fn).__name__ in ("SiLU", "SiLUActivation")
        if past_key_values is not None or attention_mask is None or not (silu and _whole(self, hidden_states, *parts)):
            given = {"attention_mask": attention_mask, "position_ids": position_ids, "use_cache": use_cache}
            kept = {"past_key_values": past_key_values, "position_embeddings": position_embeddings}
            result: Tensor = super().forward(hidden_states, **given, **kept, **options)
            return result
        norm, rate = self.input_layernorm, own.attention_dropout if self.training else 0.0
        weights = torch.cat([part.weight for part in projections])
        biases = torch.cat([part.bias for part in projections])
        given_parts = (hidden_states, None, norm.weight, weights, None, biases, own.o_proj.weight, None)
        shape = (norm.variance_epsilon, own.config.num_attention_heads, own.scaling)
        settings = (attention_mask, position_embeddings, *shape, 0.0, rate)
        states: Tensor = Attention.apply(*given_parts, *settings)  # type: ignore[no-untyped-call]
        if read is not None and own.layer_idx == own.config.num_hidden_layers - 1:
            states = states.flatten(0, 1).index_select(0, read)
        wide, gate, narrow = mlp.up_proj.weight, mlp.gate_proj.weight, mlp.down_proj.weight
        return _feed_forward(states, self.post_attention_layernorm, wide, gate, narrow, 0.0)


_BLOCKS: dict[str, type[nn.Module]] = {
    "T5LayerFF": CpuT5FeedForward,
    "T5LayerSelfAttention": CpuT5Attention,
    "T5LayerCrossAttention": CpuT5Attention,
    "Qwen2DecoderLayer": CpuQwenBlock,
}


def _feed_forward(x: Tensor, norm: Any, wide: Tensor, gate: Tensor | None, narrow: Tensor, p: float) -> Tensor:
    given = (x, norm.weight, norm.variance_epsilon, wide, gate, narrow, p)
    result: Tensor = FeedForward.apply(*given)  # type: ignore[no-untyped-call]
    return result


def _whole(layer: nn.Module, values: Tensor, *parts: nn.Module) -> bool:
    """Whether a layer with these linear ``parts`` can be computed as one step."""
    if not (torch.is_grad_enabled() and _plain(values) and onednn_works()) or watched(layer):
        return False
    if any("forward" in vars(part) for part in layer.modules()):  # Somebody has put another function there.
        return False
    return all(type(part) is CpuLinear and _plain(part.weight) for part in parts)


@cache
def _like(mixin: Any, layer: Any) -> type[nn.Module]:
    """A ``mixin`` that falls back on ``layer``; one a class, so that like layers of a network stay alike."""
    return type(f"Cpu{layer.__name__}", (mixin, layer), {})


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
        return product(values, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, weight = ctx.saved_tensors
        of_values = product(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        of_weight = weight_gradient(values, gradient) if ctx.needs_input_grad[1] else None
        return of_values, of_weight, gradient.flatten(0, -2).sum(0) if ctx.needs_input_grad[2] else None
