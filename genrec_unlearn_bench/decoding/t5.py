"""T5 for inference: the numbers of Hugging Face's model, encoded in about half its time and decoded with many beams.

Weights are regrouped so that products that read the same input become one; most are copied, so build new ones when the
model has changed. T5 v1.0 (ReLU) and v1.1 (gated), tied and untied heads. Where Hugging Face's ``generate`` projects
cross-attention keys and values from a copy of the encoder output for every beam, here they exist once a history, [B, H,
S, d], and the beams are a dimension of the query, [B, H, W, d]. The start token's are shared by all beams too; those of
the other positions are kept as computed and gathered through each beam's ancestors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from genrec_unlearn_bench.decoding.session import (
    CachedSession,
    FeedForward,
    Projection,
    RmsNorm,
    padded_heads,
    padding_bias,
    window_log_probs,
)

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration


def _feed_forward(module: Any, activation: str) -> FeedForward:
    inner = module.DenseReluDense
    wide, gate = (inner.wi_0.weight, inner.wi_1.weight) if hasattr(inner, "wi_0") else (inner.wi.weight, None)
    return FeedForward(module.layer_norm, wide, gate, inner.wo.weight, activation)


class EncoderLayer:
    """Self-attention and feed-forward of one encoder block."""

    def __init__(self, block: Any, activation: str) -> None:
        attention = block.layer[0].SelfAttention
        self.norm = RmsNorm(block.layer[0].layer_norm)
        self.qkv = Projection(torch.cat([attention.q.weight, attention.k.weight, attention.v.weight]))
        self.out = Projection(attention.o.weight)
        self.feed_forward = _feed_forward(block.layer[1], activation)


class DecoderLayer:
    """Self-attention, cross-attention and feed-forward of one decoder block."""

    def __init__(self, block: Any, activation: str) -> None:
        own, cross = block.layer[0].SelfAttention, block.layer[1].EncDecAttention
        self.norm = RmsNorm(block.layer[0].layer_norm)
        self.query = Projection(own.q.weight)
        self.key_value = Projection(torch.cat([own.k.weight, own.v.weight]))
        self.out = Projection(own.o.weight)
        self.cross_norm = RmsNorm(block.layer[1].layer_norm)
        self.cross_query = Projection(cross.q.weight)
        self.cross_key_value = Projection(torch.cat([cross.k.weight, cross.v.weight]))
        self.cross_out = Projection(cross.o.weight)
        self.feed_forward = _feed_forward(block.layer[2], activation)


class T5EncoderWeights:
    def __init__(self, model: T5ForConditionalGeneration) -> None:
        config = model.config
        self.heads, self.width = int(config.num_heads), int(config.d_kv)
        self.layers = [EncoderLayer(block, config.dense_act_fn) for block in model.encoder.block]
        self.final_norm = RmsNorm(model.encoder.final_layer_norm)
        self._bias_of = cast(Any, model.encoder.block[0]).layer[0].SelfAttention

    def position_bias(self, length: int) -> Tensor:
        """[1, H, S, S] relative position bias."""
        result: Tensor = self._bias_of.compute_bias(length, length).detach()
        return result


class T5DecoderWeights:
    """Weights of the decoder and the head.

    ``levels`` are token ranges, one for each position of a SID, where every position has a softmax of its own
    (ETEGRec); None where all share the softmax over the full vocabulary.
    """

    def __init__(self, model: T5ForConditionalGeneration, levels: Sequence[slice] | None = None) -> None:
        config = model.config
        self.heads, self.width = int(config.num_heads), int(config.d_kv)
        self.start_token = int(config.decoder_start_token_id or 0)
        self.embedding: Tensor = model.decoder.embed_tokens.weight.detach()
        self.layers = [DecoderLayer(block, config.dense_act_fn) for block in model.decoder.block]
        # A head that shares the embeddings' scale is fed states times d^-0.5 (Mesh TensorFlow's convention).
        scaled = getattr(config, "scale_decoder_outputs", config.tie_word_embeddings)
        self.final_norm = RmsNorm(model.decoder.final_layer_norm, scale=config.d_model**-0.5 if scaled else 1.0)
        self.head = Projection(model.lm_head.weight)
        self.vocabulary = int(model.lm_head.weight.shape[0])
        self.levels = [(window, Projection(model.lm_head.weight[window])) for window in levels or ()]
        self._bias_of = cast(Any, model.decoder.block[0]).layer[0].SelfAttention

    def position_bias(self, position: int) -> Tensor:
        """[H, position + 1] bias of the query at ``position`` towards all positions up to its own."""
        bias: Tensor = self._bias_of.compute_bias(position + 1, position + 1).detach()[0, :, position]
        return bias.contiguous()


@torch.no_grad()
def encode_t5(weights: T5EncoderWeights, embeddings: Tensor, mask: Tensor) -> Tensor:
    """[B, S, D] final encoder states of input embeddings [B, S, D]; ``mask`` [B, S] is True at real positions."""
    batch, length, _ = embeddings.shape
    heads, width = weights.heads, weights.width
    padding = padding_bias(mask, embeddings.dtype)
    bias = weights.position_bias(padding.shape[1])[:, :, :length].contiguous() + padding[:, None, None]
    bias = bias.view(batch * heads, length, -1)
    states = embeddings.detach()
    for layer in weights.layers:
        qkv = layer.qkv(layer.norm(states)).view(batch, length, 3, heads, width)
        query = qkv[:, :, 0].transpose(1, 2).reshape(-1, length, width)
        key, value = padded_heads(qkv[:, :, 1]), padded_heads(qkv[:, :, 2])
        shares = torch.baddbmm(bias, query, key.mT).softmax(-1)
        mixed = torch.bmm(shares, value).view(batch, heads, length, width)
        states = layer.out(mixed.transpose(1, 2).reshape(batch, length, -1)).add_(states)
        states = layer.feed_forward(states)
    return weights.final_norm(states)


class T5Session(CachedSession):
    """B encoded histories of a T5 (encoder output [B, S, D]; ``mask`` [B, S] True at real positions, of which every
    history needs one), ready for ``beam_search``."""

    _weights: T5DecoderWeights

    @torch.inference_mode()
    def __init__(self, weights: T5DecoderWeights, states: Tensor, mask: Tensor) -> None:
        self._weights = weights
        self._batch = states.shape[0]
        heads, width = self._weights.heads, self._weights.width
        states = states.detach().to(self._weights.embedding.dtype)
        padding = padding_bias(mask, states.dtype)
        self._cross_bias = padding[:, None, None].expand(-1, heads, -1, -1).reshape(-1, 1, padding.shape[1])
        self._cross: list[tuple[Tensor, Tensor]] = []
        for layer in self._weights.layers:
            both = layer.cross_key_value(states).view(*mask.shape, 2, heads, width)
            self._cross.append((padded_heads(both[:, :, 0]).mT, padded_heads(both[:, :, 1])))

    def _first(self) -> Tensor:
        tokens = torch.full((self._batch, 1), self._weights.start_token, device=self._cross_bias.device)
        return self._forward(tokens)[:, 0]

    def _log_probs(self, states: Tensor, window: slice) -> Tensor:
        """[..., n] log-probabilities of the tokens ``window`` at the newest position; a level head has its own only."""
        if not self._weights.levels:
            return super()._log_probs(states, window)
        level, head = self._weights.levels[len(self._ancestors)]
        inside = slice(window.start - level.start, window.stop - level.start)
        return window_log_probs(states, head, level.stop - level.start, inside)

    def _forward(self, tokens: Tensor) -> Tensor:
        weights = self._weights
        bias = weights.position_bias(len(self._ancestors))
        rows = self._rows()
        states = weights.embedding[tokens]
        for index, layer in enumerate(weights.layers):
            states = self._attend_self(layer, states, self._past[index], rows, bias)
            states = self._attend_history(layer, states, *self._cross[index])
            states = layer.feed_forward(states)
        return weights.final_norm(states)

    def _attend_self(
        self, layer: DecoderLayer, states: Tensor, past: list[Tensor], rows: list[Tensor], bias: Tensor
    ) -> Tensor:
        """Residual self-attention over the start token, the ancestors and the beam itself."""
        batch, beams, _ = states.shape
        heads, width = self._weights.heads, self._weights.width
        normed = layer.norm(states)
        query = layer.query(normed).view(batch, beams, heads, width)
        past.append(layer.key_value(normed))
        seen = [past[0], *(kept.flatten(0, 1).index_select(0, row) for kept, row in zip(past[1:-1], rows, strict=True))]
        if len(past) > 1:
            seen.append(past[-1])
        pairs = [kept.view(batch, -1, 2, heads, width) for kept in seen]
        scores = torch.stack([(query * pair[:, :, 0]).sum(-1) for pair in pairs], dim=-1)
        shares = scores.add_(bias).softmax(-1)[..., None]
        mixed = shares[..., 0, :] * pairs[0][:, :, 1]
        for place, pair in enumerate(pairs[1:], start=1):
            mixed.addcmul_(shares[..., place, :], pair[:, :, 1])
        return layer.out(mixed.view(batch, beams, -1)).add_(states)

    def _attend_history(self, layer: DecoderLayer, states: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Residual cross-attention; keys [B * H, d, S] and values [B * H, S, d] serve all beams of a history."""
        batch, beams, _ = states.shape
        heads, width = self._weights.heads, self._weights.width
        query = layer.cross_query(layer.cross_norm(states)).view(batch, beams, heads, width)
        query = query.transpose(1, 2).reshape(batch * heads, beams, width)
        shares = torch.baddbmm(self._cross_bias, query, keys).softmax(-1)
        mixed = torch.bmm(shares, values).view(batch, heads, beams, width)
        return layer.cross_out(mixed.transpose(1, 2).reshape(batch, beams, -1)).add_(states)
