"""Decoding sessions: next-token scores for B histories with W beams each, and what sessions on transformers share.

Search needs a few hundred columns of the softmax and never the [B, W, V] logits, so a session is asked for windows.
Rather than re-ordering every layer's keys and values on each level, a session keeps them as computed and looks them up
through the beams' ancestors.

PyTorch sends float32 products on a CPU to MKL, which keeps to AVX2 on processors that are not Intel's. oneDNN, which
PyTorch ships as well, uses AVX-512 wherever it is there (2.4 times as fast on an AMD EPYC, Zen 5). The operator behind
``Projection`` is the one PyTorch's own compiler emits for frozen linear layers; it has no gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

_CHUNK_ELEMENTS, _CHUNK_ELEMENTS_ACCELERATOR = 1 << 18, 1 << 26
"""Logits held at a time; on a CPU one megabyte, so that the softmax reads them from cache."""

_MULTIPLE = 8
"""Keys are padded to a multiple: on a CPU the product with 31 keys takes twice as long as with 32."""


class DecoderSession(Protocol):
    """B encoded histories, ready to be decoded token by token.

    What depends on the history alone (encoder output, cross-attention keys and values, the prompt's cache) is held
    once per history, never once per beam.
    """

    def start_window(self, window: slice) -> Tensor:
        """[B, n] float32 log-probabilities of the tokens ``window`` as first SID token, softmax over all tokens.

        Calling it again begins anew: all beams are forgotten.
        """

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        """[B, W, n] float32 log-probabilities of the tokens ``window`` as next token, where each beam continues
        ``parents`` [B, W] of the previous step's beams by ``tokens`` [B, W] (vocabulary ids)."""


def window_log_probs(hidden: Tensor, head: Callable[[Tensor], Tensor], vocabulary: int, window: slice) -> Tensor:
    """[..., n] float32: columns ``window`` of log_softmax(head(hidden)), a few rows at a time.

    ``head`` maps final states [R, D] to logits [R, V]; ``vocabulary`` is V.
    """
    rows = hidden.reshape(-1, hidden.shape[-1])
    budget = _CHUNK_ELEMENTS if hidden.device.type == "cpu" else _CHUNK_ELEMENTS_ACCELERATOR
    chunk = max(64, budget // vocabulary)
    out = torch.empty(len(rows), window.stop - window.start, dtype=torch.float32, device=hidden.device)
    for first in range(0, len(rows), chunk):
        logits = head(rows[first : first + chunk]).float()
        out[first : first + chunk] = logits.log_softmax(-1)[:, window]
    return out.view(*hidden.shape[:-1], -1)


class FeedForward:
    """Norm, wide layer (plain or gated), narrow layer, residual."""

    def __init__(self, norm: Any, wide: Tensor, gate: Tensor | None, narrow: Tensor, activation: str) -> None:
        self._norm = RmsNorm(norm)
        self._wide = Projection(wide, activation=activation)
        self._gate = None if gate is None else Projection(gate)
        self._narrow = Projection(narrow)

    def __call__(self, states: Tensor) -> Tensor:
        normed = self._norm(states)
        wide = self._wide(normed)
        if self._gate is not None:
            wide = wide.mul_(self._gate(normed))
        return self._narrow(wide).add_(states)


class CachedSession(ABC):
    """What sessions on transformers share: keys and values of positions so far, kept as computed, and the head."""

    _weights: Any
    _ancestors: list[Tensor]
    """For each position so far, [B, W] which entry of it each of the B x W newest beams descends from."""
    _past: list[list[Tensor]]

    @torch.inference_mode()
    def start_window(self, window: slice) -> Tensor:
        self._ancestors = []
        self._past = [[] for _ in self._weights.layers]
        return self._log_probs(self._first(), window)

    @torch.inference_mode()
    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        self._ancestors = [rows.gather(1, parents) for rows in self._ancestors]
        self._ancestors.append(torch.arange(parents.numel(), device=parents.device).view_as(parents))
        return self._log_probs(self._forward(tokens), window)

    @abstractmethod
    def _first(self) -> Tensor:
        """[B, D] final states that predict the first token."""

    @abstractmethod
    def _forward(self, tokens: Tensor) -> Tensor:
        """[B, W, D] final states of the newest position, whose beams hold ``tokens`` [B, W]."""

    def _rows(self) -> list[Tensor]:
        """For each position but the newest: [B * W] rows into what was stored there as [B * W', ...]."""
        return [rows.flatten() for rows in self._ancestors[:-1]]

    def _log_probs(self, states: Tensor, window: slice) -> Tensor:
        return window_log_probs(states, self._weights.head, self._weights.vocabulary, window)


def padded_heads(parts: Tensor) -> Tensor:
    """[B, S, H, d] -> contiguous [B * H, S', d], zeros behind S."""
    batch, length, heads, width = parts.shape
    out = parts.new_zeros(batch, heads, length + -length % _MULTIPLE, width)
    out[:, :, :length] = parts.transpose(1, 2)
    return out.view(batch * heads, -1, width)


def padding_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """[B, S] mask -> [B, S'] what to add to the scores of keys padded by ``padded_heads``."""
    return mask_bias(F.pad(mask.bool(), (0, -mask.shape[1] % _MULTIPLE)), dtype)


def mask_bias(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where ``seen``, the lowest number of the type elsewhere."""
    bias = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return bias.masked_fill_(~seen, torch.finfo(dtype).min)


_ONEDNN = {"none": ("none", ""), "relu": ("relu", ""), "silu": ("swish", ""), "gelu_new": ("gelu", "tanh")}
"""Of T5, Qwen2 and T5 v1.1, by the names of Hugging Face."""


class RmsNorm:
    """Root mean square norm with a gain (T5, Qwen2): no bias and no mean. ``scale`` multiplies the gain."""

    def __init__(self, module: Any, *, scale: float = 1.0) -> None:
        self._gain: Tensor = (module.weight * scale).detach()
        self._epsilon = float(module.variance_epsilon)

    def __call__(self, states: Tensor) -> Tensor:
        return F.rms_norm(states, self._gain.shape, self._gain, self._epsilon)


@cache
def onednn_works() -> bool:
    """Whether the fused operator exists and agrees with ``linear``; it is no public interface, so it is tried."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    weight = torch.linspace(-1.0, 1.0, 96).view(12, 8)
    bias = torch.linspace(-0.5, 0.5, 12)
    values = torch.linspace(1.0, -2.0, 40).view(5, 8)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        got = torch.ops.mkldnn._linear_pointwise(values, packed, bias, "relu", [], "")
    except (AttributeError, RuntimeError, TypeError):
        return False
    return bool(torch.allclose(got, F.linear(values, weight, bias).relu(), atol=1e-5))


class Projection:
    """``activation(x W^T + b)`` with the weight [N, K] laid out once for many calls; ``activation`` is a Hugging Face
    name, or "none".

    Build a new one when the weight has changed: whether this one follows depends on the layout.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, *, activation: str = "none") -> None:
        self._activation = activation
        self._weight = weight.detach()
        # The fused operator ignores the strides of a bias.
        self._bias = None if bias is None else bias.detach().contiguous()
        self._packed: Tensor | None = None
        if weight.device.type == "cpu" and weight.dtype == torch.float32 and activation in _ONEDNN and onednn_works():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self._weight.contiguous(), None)

    def __call__(self, values: Tensor) -> Tensor:
        """[..., K] -> [..., N]."""
        result: Tensor
        if self._packed is not None:
            kind, algorithm = _ONEDNN[self._activation]
            result = torch.ops.mkldnn._linear_pointwise(values, self._packed, self._bias, kind, [], algorithm)
            return result
        result = F.linear(values, self._weight, self._bias)
        if self._activation != "none":
            from transformers.activations import ACT2FN

            result = ACT2FN[self._activation.replace("gelu_new", "gelu_pytorch_tanh")](result)
        return result
