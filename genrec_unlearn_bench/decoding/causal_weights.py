"""The weights of a Qwen2-style causal model, regrouped for inference: products that read the same input become one.

Covers grouped-query attention, rotary positions, gated feed-forward, biases on queries, keys and values (or none), tied
or untied heads, low-rank adapters of peft. Most weights are copied: build a new one when the model has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.decoding.linear import Projection
from genrec_unlearn_bench.errors import BenchError

if TYPE_CHECKING:
    from transformers import Qwen2ForCausalLM

__all__ = ["CausalLayer", "CausalWeights", "RmsNorm"]


class RmsNorm:
    """Root mean square norm with a gain."""

    def __init__(self, module: Any) -> None:
        self._gain: Tensor = module.weight.detach()
        self._epsilon = float(module.variance_epsilon)

    def __call__(self, states: Tensor) -> Tensor:
        return F.rms_norm(states, self._gain.shape, self._gain, self._epsilon)


class CausalLayer:
    """One block: attention projections and the gated feed-forward."""

    def __init__(self, block: Any, activation: str) -> None:
        attention, mlp = block.self_attn, block.mlp
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        bias = None if attention.q_proj.bias is None else torch.cat([part.bias for part in parts])
        self.norm = RmsNorm(block.input_layernorm)
        self.qkv = Projection(torch.cat([_weight(part) for part in parts]), bias)
        self.out = Projection(_weight(attention.o_proj), attention.o_proj.bias)
        self._mlp_norm = RmsNorm(block.post_attention_layernorm)
        self._gate = Projection(_weight(mlp.gate_proj), activation=activation)
        self._up = Projection(_weight(mlp.up_proj))
        self._down = Projection(_weight(mlp.down_proj))

    def feed_forward(self, states: Tensor) -> Tensor:
        """Residual gated feed-forward."""
        normed = self._mlp_norm(states)
        return self._down(self._gate(normed).mul_(self._up(normed))).add_(states)


def _weight(linear: Any) -> Tensor:
    """The matrix a linear layer multiplies with; a new one where peft's low-rank adapters are switched on."""
    weight: Tensor = linear.weight.detach()
    if not hasattr(linear, "get_delta_weight") or linear.disable_adapters or linear.merged:
        return weight
    for name in linear.active_adapters:
        weight = weight + linear.get_delta_weight(name).detach().to(weight.dtype)
    return weight


class CausalWeights:
    """Everything decoding needs of a causal model.

    Raises:
        BenchError: the model attends through a sliding window, which decoding does not follow.
    """

    def __init__(self, model: Qwen2ForCausalLM) -> None:
        config: Any = model.config
        if "sliding_attention" in (getattr(config, "layer_types", None) or ()):
            raise BenchError(
                "causal models with sliding-window attention are not supported",
                hint="set use_sliding_window to false in the model's configuration",
            )
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
