"""A T5's weights, regrouped for inference: products that read the same input become one.

Works for T5 v1.0 (ReLU) and v1.1 (gated), tied or untied heads. Most weights are copied: build a new
one when the model has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.decoding.linear import Projection

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration

__all__ = [
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "LevelHead",
    "Norm",
    "T5DecoderWeights",
    "T5EncoderWeights",
]


class Norm:
    """T5's layer norm: root mean square and a gain, no bias and no mean."""

    def __init__(self, module: Any, *, scale: float = 1.0) -> None:
        self._gain: Tensor = (module.weight * scale).detach()
        self._epsilon = float(module.variance_epsilon)

    def __call__(self, states: Tensor) -> Tensor:
        return F.rms_norm(states, self._gain.shape, self._gain, self._epsilon)


class FeedForward:
    """Norm, wide layer (plain or gated), narrow layer, residual."""

    def __init__(self, module: Any, activation: str) -> None:
        inner = module.DenseReluDense
        gated = hasattr(inner, "wi_0")
        self._norm = Norm(module.layer_norm)
        self._wide = Projection((inner.wi_0 if gated else inner.wi).weight, activation=activation)
        self._gate = Projection(inner.wi_1.weight) if gated else None
        self._narrow = Projection(inner.wo.weight)

    def __call__(self, states: Tensor) -> Tensor:
        normed = self._norm(states)
        wide = self._wide(normed)
        if self._gate is not None:
            wide = wide.mul_(self._gate(normed))
        return self._narrow(wide).add_(states)


class EncoderLayer:
    """Self-attention and feed-forward of one encoder block."""

    def __init__(self, block: Any, activation: str) -> None:
        attention = block.layer[0].SelfAttention
        self.norm = Norm(block.layer[0].layer_norm)
        self.qkv = Projection(torch.cat([attention.q.weight, attention.k.weight, attention.v.weight]))
        self.out = Projection(attention.o.weight)
        self.feed_forward = FeedForward(block.layer[1], activation)


class DecoderLayer:
    """Self-attention, cross-attention and feed-forward of one decoder block."""

    def __init__(self, block: Any, activation: str) -> None:
        own, cross = block.layer[0].SelfAttention, block.layer[1].EncDecAttention
        self.norm = Norm(block.layer[0].layer_norm)
        self.query = Projection(own.q.weight)
        self.key_value = Projection(torch.cat([own.k.weight, own.v.weight]))
        self.out = Projection(own.o.weight)
        self.cross_norm = Norm(block.layer[1].layer_norm)
        self.cross_query = Projection(cross.q.weight)
        self.cross_key_value = Projection(torch.cat([cross.k.weight, cross.v.weight]))
        self.cross_out = Projection(cross.o.weight)
        self.feed_forward = FeedForward(block.layer[2], activation)


@dataclass(frozen=True, eq=False)
class LevelHead:
    """The head of one position of a SID: the rows ``window`` of the whole head."""

    window: slice
    head: Projection


class T5EncoderWeights:
    """Everything the encoder needs."""

    def __init__(self, model: T5ForConditionalGeneration) -> None:
        config = model.config
        self.heads, self.width = int(config.num_heads), int(config.d_kv)
        self.layers = [EncoderLayer(block, config.dense_act_fn) for block in model.encoder.block]
        self.final_norm = Norm(model.encoder.final_layer_norm)
        self._bias_of = cast(Any, model.encoder.block[0]).layer[0].SelfAttention

    def position_bias(self, length: int) -> Tensor:
        """[1, H, S, S] relative position bias."""
        bias: Tensor = self._bias_of.compute_bias(length, length).detach()
        return bias


class T5DecoderWeights:
    """Everything the decoder and the head need.

    Args:
        levels: Token ranges, one for each position of a SID, where every position has a softmax of its own (ETEGRec);
            None where all share the softmax over the full vocabulary.
    """

    def __init__(self, model: T5ForConditionalGeneration, levels: Sequence[slice] | None = None) -> None:
        config = model.config
        self.heads, self.width = int(config.num_heads), int(config.d_kv)
        self.start_token = int(config.decoder_start_token_id or 0)
        self.embedding: Tensor = model.decoder.embed_tokens.weight.detach()
        self.layers = [DecoderLayer(block, config.dense_act_fn) for block in model.decoder.block]
        # A head that shares the embeddings' scale is fed states times d^-0.5 (Mesh TensorFlow's convention).
        scaled = getattr(config, "scale_decoder_outputs", config.tie_word_embeddings)
        self.final_norm = Norm(model.decoder.final_layer_norm, scale=config.d_model**-0.5 if scaled else 1.0)
        self.head = Projection(model.lm_head.weight)
        self.vocabulary = int(model.lm_head.weight.shape[0])
        self.levels: tuple[LevelHead, ...] | None = None
        if levels is not None:
            self.levels = tuple(LevelHead(window, Projection(model.lm_head.weight[window])) for window in levels)
        self._bias_of = cast(Any, model.decoder.block[0]).layer[0].SelfAttention

    def position_bias(self, position: int) -> Tensor:
        """[H, position + 1] bias of the query at ``position`` towards all positions up to its own."""
        bias: Tensor = self._bias_of.compute_bias(position + 1, position + 1).detach()[0, :, position]
        return bias.contiguous()
