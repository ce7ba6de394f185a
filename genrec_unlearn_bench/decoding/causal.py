"""Qwen2-style causal models for inference: the prompt is read once a history, whatever the number of beams.

The prompt's keys and values exist once a history, [B, G, S, d] for G key-value heads, and are never expanded: beams and
the query heads of a group are rows of one product (tree attention). Each beam's own few keys and values are kept as
computed and found through its ancestors. In the last layer only the last position of the prompt is carried on. Most
weights are copied: build new ones when the model has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.decoding.session import (
    CachedSession,
    FeedForward,
    Projection,
    RmsNorm,
    mask_bias,
    padded_heads,
    padding_bias,
)

if TYPE_CHECKING:
    from transformers import Qwen2ForCausalLM


class CausalLayer:
    """One block: attention projections and the gated feed-forward."""

    def __init__(self, block: Any, activation: str) -> None:
        attention, mlp = block.self_attn, block.mlp
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        bias = None if attention.q_proj.bias is None else torch.cat([part.bias for part in parts])
        self.norm = RmsNorm(block.input_layernorm)
        self.qkv = Projection(torch.cat([_weight(part) for part in parts]), bias)
        self.out = Projection(_weight(attention.o_proj), attention.o_proj.bias)
        gate, up, down = (_weight(part) for part in (mlp.gate_proj, mlp.up_proj, mlp.down_proj))
        self.feed_forward = FeedForward(block.post_attention_layernorm, gate, up, down, activation)


def _weight(linear: Any) -> Tensor:
    """The matrix a linear layer multiplies with; a new one where peft's low-rank adapters are switched on."""
    weight: Tensor = linear.weight.detach()
    if not hasattr(linear, "get_delta_weight") or linear.disable_adapters or linear.merged:
        return weight
    for name in linear.active_adapters:
        weight = weight + linear.get_delta_weight(name).detach().to(weight.dtype)
    return weight


class CausalWeights:
    """Weights of a causal model without sliding-window attention."""

    def __init__(self, model: Qwen2ForCausalLM) -> None:
        config: Any = model.config
        self.heads = int(config.num_attention_heads)
        self.groups = int(config.num_key_value_heads)
        self.width: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.embedding: Tensor = model.model.embed_tokens.weight.detach()
        self.layers = [CausalLayer(block, config.hidden_act) for block in model.model.layers]
        self.final_norm = RmsNorm(model.model.norm)
        self.head = Projection(model.lm_head.weight, model.lm_head.bias)
        self.vocabulary = int(model.lm_head.weight.shape[0])
        self._rotary: Any = model.model.rotary_emb

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [B, T, 1, d] of the rotary embedding at ``positions`` [B, T]."""
        cosine, sine = self._rotary(self.embedding[:1], positions)
        return cosine[:, :, None], sine[:, :, None]


class CausalSession(CachedSession):
    """B prompts of a causal model, read from their input embeddings [B, S, D] and ready for ``beam_search``.

    ``mask`` [B, S] is True at real positions; padding may stand on either side, every prompt needs a position.
    """

    _weights: CausalWeights

    @torch.inference_mode()
    def __init__(self, weights: CausalWeights, embeddings: Tensor, mask: Tensor) -> None:
        self._weights = weights
        embeddings = embeddings.detach().to(self._weights.embedding.dtype)
        mask = mask.bool()
        self._lengths = mask.sum(1, keepdim=True)
        self._key_bias = padding_bias(mask, embeddings.dtype)[:, None, None]
        self._prompt: list[tuple[Tensor, Tensor]] = []
        self._first_states = self._read(embeddings, mask)

    def _first(self) -> Tensor:
        return self._first_states

    def _read(self, states: Tensor, mask: Tensor) -> Tensor:
        """[B, D] final states at the prompts' last positions; fills ``_prompt``."""
        weights = self._weights
        batch, length, _ = states.shape
        rotation = weights.rotation((mask.cumsum(1) - 1).clamp(min=0))
        seen = torch.ones(length, length, dtype=torch.bool, device=mask.device).tril() & mask[:, None]
        # A padded position sees itself, so that no row of the softmax is empty.
        seen |= torch.eye(length, dtype=torch.bool, device=mask.device)
        bias = mask_bias(seen, states.dtype)[:, None]
        last = (torch.arange(length, device=mask.device) * mask).argmax(1)
        for index, layer in enumerate(weights.layers):
            query, key, value = self._project(layer, states, rotation)
            self._prompt.append((padded_heads(key), padded_heads(value)))
            if index + 1 < len(weights.layers):
                query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
                mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, enable_gqa=True)
                states = layer.out(mixed.transpose(1, 2).reshape(batch, length, -1)).add_(states)
                states = layer.feed_forward(states)
        rows = torch.arange(batch, device=mask.device)
        final, query = states[rows, last][:, None], query[rows, last][:, None]
        final = weights.layers[-1].out(self._attend(query, -1, [])).add_(final)
        return weights.final_norm(weights.layers[-1].feed_forward(final))[:, 0]

    def _forward(self, tokens: Tensor) -> Tensor:
        weights = self._weights
        rotation = weights.rotation(self._lengths + len(self._ancestors) - 1)
        rows = self._rows()
        states = weights.embedding[tokens]
        for index, layer in enumerate(weights.layers):
            query, key, value = self._project(layer, states, rotation)
            past = self._past[index]
            past.append(torch.stack([key, value], dim=2))
            seen = [kept.flatten(0, 1).index_select(0, row) for kept, row in zip(past[:-1], rows, strict=True)]
            pairs = [kept.view_as(past[-1]) for kept in seen] + past[-1:]
            states = layer.out(self._attend(query, index, pairs)).add_(states)
            states = layer.feed_forward(states)
        return weights.final_norm(states)

    def _project(
        self, layer: CausalLayer, states: Tensor, rotation: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [B, T, H, d], rotated keys and plain values [B, T, G, d]."""
        heads, groups, width = self._weights.heads, self._weights.groups, self._weights.width
        every = layer.qkv(layer.norm(states)).view(*states.shape[:2], heads + 2 * groups, width)
        turned, value = every[:, :, : heads + groups], every[:, :, heads + groups :]
        low, high = turned.chunk(2, dim=-1)
        cosine, sine = rotation
        turned = (turned * cosine).addcmul_(torch.cat([-high, low], dim=-1), sine)
        return turned[:, :, :heads], turned[:, :, heads:], value

    def _attend(self, query: Tensor, layer: int, pairs: list[Tensor]) -> Tensor:
        """[B, W, H * d] attention of ``query`` [B, W, H, d] to the prompt and to each beam's own positions.

        ``pairs``: keys and values [B, W, 2, G, d] of the beam's ancestors and itself.
        """
        batch, beams, heads, width = query.shape
        groups = self._weights.groups
        keys, values = (part.view(batch, groups, -1, width) for part in self._prompt[layer])
        query = (query * width**-0.5).view(batch, beams, groups, -1, width)
        stacked = query.transpose(1, 2).reshape(batch, groups, -1, width)
        scores = [torch.matmul(stacked, keys.mT).add_(self._key_bias)]
        for pair in pairs:
            own = (query * pair[:, :, 0, :, None]).sum(-1)
            scores.append(own.transpose(1, 2).reshape(batch, groups, -1, 1))
        shares = torch.cat(scores, dim=-1).float().softmax(-1).to(query.dtype)
        length = keys.shape[2]
        mixed = torch.matmul(shares[..., :length], values)
        mixed = mixed.view(batch, groups, beams, -1, width).transpose(1, 2).contiguous()
        for place, pair in enumerate(pairs, start=length):
            share = shares[..., place].view(batch, groups, beams, -1).transpose(1, 2)
            mixed.addcmul_(share[..., None], pair[:, :, 1, :, None])
        return mixed.view(batch, beams, heads * width)
