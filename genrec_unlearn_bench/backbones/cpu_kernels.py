"""Attention and feed-forward layers as one step each, with norm, dropout and residual: float32 on a CPU.

Sixty percent of a training step of T5 or Qwen2 on a CPU were not products but what stands around them: dropout, norms,
copies between layouts, and a graph of some forty small operations a layer. Here a layer is one node of that graph, its
gradients written out; queries, keys and values come from one product, ReLU from the product's own epilogue, masks from
16 random bits an element. The mathematics is that of transformers; sums are taken in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor

_bfloat16 = False
_BITS = 1 << 16
_UNSEEN = 1e30
"""Taken from the scores of positions that must not be seen; their probability then is exactly 0."""


def product(values: Tensor, weight: Tensor, bias: Tensor | None = None, then: str = "none") -> Tensor:
    """float32 [..., K] x [N, K] -> [..., N] by oneDNN, where ``onednn_works``; ``then`` is "none" or "relu"."""
    rows, bias = values.flatten(0, -2), None if bias is None else bias.contiguous()
    if _bfloat16:
        rows, weight, bias = rows.bfloat16(), weight.bfloat16(), None if bias is None else bias.bfloat16()
        if not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # As on processors without AVX-512.
            rows, weight, bias = rows.float(), weight.float(), None if bias is None else bias.float()
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, then, [], "")
    result = (result.bfloat16() if _bfloat16 else result).float()
    # A view of it could not be changed in place.
    shaped: Tensor = torch.ops.aten._unsafe_view(result, [*values.shape[:-1], len(weight)])
    return shaped


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """For ``backward`` of a function whose gradients have none. PyTorch's decorator of this name lets
    ``torch.autograd.grad`` go past such a function and leave out its part without a word."""

    @wraps(backward)
    def checked(*given: Any) -> Any:
        if torch.is_grad_enabled():  # That is what create_graph=True means here.
            raise RuntimeError(
                "these layers have no second derivative: call the model inside cpu_layers.twice_differentiable()"
            )
        return backward(*given)

    return checked


@contextmanager
def bfloat16_products(wanted: bool = True) -> Iterator[None]:
    """Round operands and results of products to bfloat16 inside the block, gradients' too, as CUDA's autocast does.

    Sums within a product stay in float32, so a processor without bfloat16 gives the same numbers but for the last bits
    of these sums, only later.
    """
    global _bfloat16
    before, _bfloat16 = _bfloat16, wanted
    try:
        yield
    finally:
        _bfloat16 = before


def weight_gradient(values: Tensor, gradient: Tensor) -> Tensor:
    """[N, K] gradient of a weight, of inputs [..., K] and the outputs' gradient [..., N]."""
    if not gradient.numel():  # oneDNN adds up no empty sums.
        return gradient.new_zeros(gradient.shape[-1], values.shape[-1])
    # The first operand is copied, so it should be the smaller one.
    one, two = values.flatten(0, -2).t(), gradient.flatten(0, -2).t()
    return product(one, two).t() if len(one) <= len(two) else product(two, one)


def dropout_mask(shape: torch.Size, probability: float) -> Tensor:
    """0 with ``probability``, rounded to a multiple of 2^-16, else the factor that keeps the mean.

    One number of torch's generator seeds numpy's SFC64, which takes a quarter of the time.
    """
    seed = int(torch.empty((), dtype=torch.int64).random_())
    words = np.random.SFC64(seed).random_raw(-(-shape.numel() // 4))
    drawn = torch.from_numpy(words).view(torch.int16)[: shape.numel()].view(shape)
    mask = torch.ge(drawn, _dropped(probability) - _BITS // 2, out=torch.empty(shape))
    return mask.mul_(_factor(probability))


def _dropped(probability: float) -> int:
    """Of the 2^16 numbers of 16 bits, how many mean 0."""
    return min(round(probability * _BITS), _BITS - 1)


def _factor(probability: float) -> float:
    return _BITS / (_BITS - _dropped(probability))


class FeedForward(torch.autograd.Function):
    """x + drop(N drop(relu(W n))), or with a gate x + N (silu(G n) * W n); n is x behind its root mean square norm."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, norm: Tensor, epsilon: float, wide: Tensor, gate: Tensor | None, narrow: Tensor, p: float
    ) -> Tensor:
        """``x`` [..., D], ``norm`` [D], ``wide`` and ``gate`` [F, D], ``narrow`` [D, F]; no dropout with a gate."""
        scale = _scale(x, epsilon)
        normed = (x * scale).mul_(norm)
        opened = passed = kept = None
        if gate is None:
            value = inner = product(normed, wide, then="relu")
            if p:
                inner.mul_(dropout_mask(inner.shape, p))
                kept = dropout_mask(x.shape, p)
        else:
            value, opened = product(normed, wide), product(normed, gate)
            passed = torch.sigmoid(opened)
            opened.mul_(passed)
            inner = opened * value
        ctx.save_for_backward(x, norm, scale, normed, wide, gate, narrow, passed, opened, value, inner, kept)
        ctx.p = p
        return _residual(x, product(inner, narrow), kept)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, norm, scale, normed, wide, gate, narrow, passed, opened, value, inner, kept = ctx.saved_tensors
        needs = ctx.needs_input_grad
        of_out = gradient if kept is None else gradient * kept
        of_inner, of_gate = product(of_out, narrow.t()), None
        if opened is None:
            # What is positive went through ReLU and dropout.
            of_value = torch.ops.aten.threshold_backward(of_inner, inner, 0).mul_(_factor(ctx.p))
            of_normed = product(of_value, wide.t())
        else:
            of_value = opened * of_inner
            slope = torch.addcmul(passed + opened, opened, passed, value=-1)
            of_opened = of_inner.mul_(value).mul_(slope)
            of_normed = product(of_value, wide.t()).add_(product(of_opened, gate.t()))
            of_gate = weight_gradient(normed, of_opened) if needs[4] else None
        of_wide = weight_gradient(normed, of_value) if needs[3] else None
        of_narrow = weight_gradient(inner, of_out) if needs[5] else None
        of_x, of_norm = _through_norm(x, norm, scale, of_normed, gradient)
        return of_x, of_norm, None, of_wide, of_gate, of_narrow, None


class Attention(torch.autograd.Function):
    """x + drop(O drop(softmax(s q k + b)) v), where q, k and v are of n, the normed x, or k and v of a memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, memory: Any, norm: Any, own: Any, other: Any, bias: Any, *rest: Any) -> Tensor:
        """Of ``x`` [B, S, D] and ``memory`` [B, S', D], unnormed, or None where keys and values are of x.

        ``own`` [.., D] are the weights of q, k and v, or of q alone with a memory, and ``other`` then those of k and v;
        ``bias`` is for ``own``. The rest: ``out`` [D, H d]; ``positions`` [1, H, S, S'], added to the scores; ``mask``,
        bool and True where a position may be seen, or added to the scores, broadcast to [B, H, S, S']; ``rotary``,
        cosines and sines [B or 1, S, d]; the norm's epsilon, H, the factor s, and the rates of dropout of the output
        and of the probabilities. None stands for what there is not.
        """
        out, positions, mask, rotary, epsilon, heads, scaling, p, p_scores = rest
        width = out.shape[1] // heads
        scale = _scale(x, epsilon)
        normed = (x * scale).mul_(norm)
        parts = product(normed, own, bias)
        other_parts = parts[..., heads * width :] if other is None else product(memory, other)
        q, k, v = (_by_head(part, width) for part in (parts[..., : heads * width], *other_parts.chunk(2, -1)))
        if rotary is not None:
            q, k = _rotated(q, *rotary), _rotated(k, *rotary)
        if scaling != 1.0:
            q.mul_(scaling)
        # Query heads that share keys stand one under another.
        shape = (len(x), heads, x.shape[1], k.shape[2])
        q, k, v = q.view(len(x) * k.shape[1], -1, width), k.flatten(0, 1), v.flatten(0, 1)
        scores = torch.bmm(q, k.transpose(1, 2)).view(shape)
        if positions is not None:
            scores += positions
        if mask is not None:
            scores += mask.to(scores.dtype).sub_(1).mul_(_UNSEEN) if mask.dtype == torch.bool else mask
        probs = scores.softmax(-1)
        kept_scores = dropout_mask(probs.shape, p_scores) if p_scores else None
        weights = probs if kept_scores is None else probs * kept_scores
        mixed = _joined(torch.bmm(weights.view(len(q), -1, shape[3]), v).view(*shape[:3], width))
        kept = dropout_mask(x.shape, p) if p else None
        ctx.save_for_backward(
            x, memory, norm, scale, normed, own, other, out, q, k, v, probs, kept_scores, weights, mixed, kept
        )
        ctx.rotary, ctx.scaling, ctx.width = rotary, scaling, width
        return _residual(x, product(mixed, out), kept)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, memory, norm, scale, normed, own, other, out, q, k, v, probs, kept_scores, weights, mixed, kept = (
            ctx.saved_tensors
        )
        needs, shape = ctx.needs_input_grad, probs.shape
        of_out = gradient if kept is None else gradient * kept
        of_mixed = _by_head(product(of_out, out.t()), ctx.width).view(len(q), -1, ctx.width)
        of_weights = torch.bmm(of_mixed, v.transpose(1, 2)).view(shape)
        if kept_scores is not None:
            of_weights.mul_(kept_scores)
        of_scores = torch.ops.aten._softmax_backward_data(of_weights, probs, -1, probs.dtype)
        flat = of_scores.view(len(q), -1, shape[3])
        of_q, of_k = torch.bmm(flat, k).view(*shape[:3], -1), torch.bmm(flat.transpose(1, 2), q)
        of_v = torch.bmm(weights.view_as(flat).transpose(1, 2), of_mixed)
        of_k, of_v = (part.view(len(x), -1, shape[3], ctx.width) for part in (of_k, of_v))
        if ctx.scaling != 1.0:
            of_q.mul_(ctx.scaling)
        if ctx.rotary is not None:
            cosine, sine = ctx.rotary
            of_q, of_k = _rotated(of_q, cosine, -sine), _rotated(of_k, cosine, -sine)
        of_memory = of_other = None
        if other is None:
            of_own_parts = _joined(of_q, of_k, of_v)
        else:
            of_own_parts, of_rest = _joined(of_q), _joined(of_k, of_v)
            of_memory = product(of_rest, other.t()) if needs[1] else None
            of_other = weight_gradient(memory, of_rest) if needs[4] else None
        of_x, of_norm = _through_norm(x, norm, scale, product(of_own_parts, own.t()), gradient)
        of_own = weight_gradient(normed, of_own_parts) if needs[3] else None
        of_bias = of_own_parts.flatten(0, -2).sum(0) if needs[5] else None
        of_out_weight = weight_gradient(mixed, of_out) if needs[6] else None
        of_positions = of_scores.sum(0, keepdim=True) if needs[7] else None
        return of_x, of_memory, of_norm, of_own, of_other, of_bias, of_out_weight, of_positions, *[None] * 7


def _scale(x: Tensor, epsilon: float) -> Tensor:
    """[..., 1] one over the root mean square of the last dimension."""
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return length.square_().div_(x.shape[-1]).add_(epsilon).rsqrt_()


def _through_norm(x: Tensor, norm: Tensor, scale: Tensor, gradient: Tensor, straight: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the norm's weight; ``straight`` is the gradient of the residual connection."""
    unit = x * scale
    aligned = gradient * unit
    mean = (aligned @ norm).div_(-x.shape[-1]).unsqueeze(-1)
    inner = torch.addcmul(gradient.mul_(norm), unit, mean)
    return torch.addcmul(straight, inner, scale), aligned.flatten(0, -2).sum(0)


def _residual(x: Tensor, change: Tensor, kept: Tensor | None) -> Tensor:
    result: Tensor = change.add_(x) if kept is None else torch.addcmul(x, change, kept)
    return result


def _by_head(parts: Tensor, width: int) -> Tensor:
    """[B, S, H d] -> contiguous [B, H, S, d]."""
    return parts.view(*parts.shape[:2], -1, width).transpose(1, 2).contiguous()


def _joined(*parts: Tensor) -> Tensor:
    """[B, H, S, d] each -> contiguous [B, S, (H + ...) d]."""
    return torch.cat([part.transpose(1, 2) for part in parts], 2).flatten(2)


def _rotated(parts: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions; with the negative sine the inverse."""
    one, two = parts.chunk(2, -1)
    return torch.addcmul(parts * cosine[:, None], torch.cat([-two, one], -1), sine[:, None])
