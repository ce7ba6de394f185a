"""What a causal recommender is rebuilt from: its network, how it is trained in place, and what it reads."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from genrec_unlearn_bench.backbones.minionerec.words import TaskWords
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import UsageError

__all__ = ["CausalShape", "LoraShape", "NetworkShape"]


class NetworkShape(StrictModel):
    """A Qwen2 decoder."""

    hidden: int = Field(default=128, ge=2)
    """Width of the residual stream."""
    ffn: int = Field(default=512, ge=1)
    """Width of the gated feed-forward layers."""
    layers: int = Field(default=4, ge=1)
    """Blocks."""
    heads: int = Field(default=4, ge=1)
    """Query heads."""
    groups: int = Field(default=2, ge=1)
    """Key-value heads; each serves ``heads / groups`` query heads."""
    head_dim: int | None = None
    """Width of a head; hidden / heads where none is given."""
    tied: bool = True
    """One matrix is input embedding and output head (Qwen2.5: 0.5B to 3B); 7B has two."""
    rope_theta: float = Field(default=10_000.0, gt=0)
    """Base of the rotary positions (Qwen2.5: 1e6)."""
    norm_epsilon: float = Field(default=1e-6, gt=0)
    """Added under the root of the norms."""
    positions: int = Field(default=1024, ge=1)
    """Longest sequence."""
    init: float = Field(default=0.02, gt=0)
    """Standard deviation of random weights."""

    @classmethod
    def of(cls, config: Any, source: str) -> NetworkShape:
        """The shape of a checkpoint's ``Qwen2Config``.

        Raises:
            UsageError: It has sliding-window attention, stretched rotary positions or another activation, which
                decoding here does not follow.
        """
        rope = config.rope_parameters or {}
        odd = [
            name
            for name, there in (
                ("sliding-window attention", "sliding_attention" in (config.layer_types or ())),
                ("stretched rotary positions", rope.get("rope_type", "default") != "default"),
                (f"the activation {config.hidden_act!r}", config.hidden_act != "silu"),
            )
            if there
        ]
        if odd:
            raise UsageError(
                f"the model has {' and '.join(odd)}, which decoding does not follow",
                where=source,
                hint="choose a plain Qwen2 or Qwen2.5 checkpoint",
            )
        return cls(
            hidden=config.hidden_size,
            ffn=config.intermediate_size,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            groups=config.num_key_value_heads,
            head_dim=getattr(config, "head_dim", None),
            tied=config.tie_word_embeddings,
            rope_theta=float(rope.get("rope_theta", 10_000.0)),
            norm_epsilon=config.rms_norm_eps,
            positions=config.max_position_embeddings,
            init=config.initializer_range,
        )


class LoraShape(StrictModel):
    """Low-rank adapters (Hu et al. 2021) in place of full fine-tuning; SID rows of embedding and head learn in full."""

    rank: int = Field(default=16, ge=1)
    """Rank of each adapter."""
    alpha: int = Field(default=32, ge=1)
    """Adapters are scaled by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout in front of the adapters, in training."""
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    """Linear layers that get one, by name."""


class CausalShape(StrictModel):
    """Everything a saved recommender is rebuilt from, beside weights, SIDs and tokenizer."""

    network: NetworkShape = Field(default_factory=NetworkShape)
    """Architecture."""
    text_tokens: int = Field(default=0, ge=0)
    """Tokens of the text vocabulary, in front of those of the SIDs; 0 for a model that knows SIDs alone."""
    words: TaskWords | None = None
    """Words of the prompts; None for a model that knows SIDs alone."""
    text_tasks: bool = False
    """Whether titles were learned beside interactions."""
    end_token: int | None = None
    """End of a sequence in the text vocabulary, trained behind every response and never scored."""
    title_tokens: int = Field(default=32, ge=1)
    """Longest title, in tokens."""
    history_limit: int = Field(default=10, ge=1)
    """Most recent items the prompt holds."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of input embeddings and attention, in training."""
    lora: LoraShape | None = None
    """Adapters; None for full fine-tuning."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights; whatever learns beside adapters stays float32."""
    checkpointing: bool = False
    """Compute activations again in the backward pass rather than keep them (training mode only)."""
