"""MiniOneRec: a decoder-only language model that reads and writes semantic IDs (arXiv 2510.24431; TRACER's MOR row).

Its supervised stage is built here (TRACER starts from it); the reinforcement stage, about which reproductions disagree,
is not. From scratch (``checkpoint: null``; the smoke and small scales) there is no text at all. With a checkpoint, four
of five tasks carry titles, so a concept also sits in item-text samples: ``Capability.TEXT_TASKS``. Retraining leaves
those of concept items out, and the titles that remain are scrubbed. Deviations: docs/backbones.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.backbones.backbone import Backbone
from genrec_unlearn_bench.backbones.config import BY_PASSES, BackboneConfig, TrainingConfig
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.sids.config import SID_PRESETS, SidConfig


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
        """The shape of a checkpoint's ``Qwen2Config``; raises UsageError for what decoding here does not follow."""
        rope = config.rope_parameters or {}
        stretched = rope.get("rope_type", "default") != "default"
        if stretched or "sliding_attention" in (config.layer_types or ()) or config.hidden_act != "silu":
            said = "the model has sliding-window attention, stretched rotary positions or another activation than silu"
            raise UsageError(said, where=source, hint="choose a plain Qwen2 or Qwen2.5 checkpoint")
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
    """Everything a saved recommender is rebuilt from, beside weights, SIDs and tokenizer; see ``MiniOneRecConfig``."""

    network: NetworkShape = Field(default_factory=NetworkShape)
    text_tokens: int = Field(default=0, ge=0)
    """Tokens of the text vocabulary, in front of those of the SIDs; 0 for a model of SIDs alone."""
    text_tasks: bool = False
    end_token: int | None = None
    """End of a sequence in the text vocabulary, trained behind every response and never scored."""
    title_tokens: int = Field(default=32, ge=1)
    unseen_prompt: bool = Field(default=False, exclude_if=lambda unseen: not unseen)
    history_limit: int = Field(default=10, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    lora: LoraShape | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    checkpointing: bool = False


class MiniOneRecConfig(BackboneConfig):
    """The network, what it reads, and its training."""

    checkpoint: str | None = None
    """A Qwen2 or Qwen2.5 model by hub id (``@revision`` behind it pins one) or local folder; null trains a network from
    scratch over SID tokens alone."""
    network: NetworkShape = Field(default_factory=NetworkShape)
    """Architecture from scratch; a checkpoint brings its own."""
    history_limit: int = Field(default=10, ge=1)
    """Most recent items in a prompt."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of input embeddings and attention."""
    text_tasks: bool = True
    """With a checkpoint: learn titles beside interactions (four more tasks). From scratch there is no text."""
    titles_to_title: bool = Field(default=False, exclude_if=lambda sixth: not sixth)
    """With ``text_tasks``: the sixth official task too, titles of a history to the next title."""
    unseen_prompt: bool = Field(default=False, exclude_if=lambda unseen: not unseen)
    """With a checkpoint: everything but training (serving, unlearning, measuring) asks for the next item in words that
    training never shows, as the official evaluation does."""
    ending: bool = True
    """With a checkpoint: responses are taught to end (newline, end of sequence). Never scored."""
    title_tokens: int = Field(default=32, ge=1)
    """With a checkpoint: longest title, in tokens."""
    lora: LoraShape | None = None
    """With a checkpoint: adapters in place of full fine-tuning. Needs ``training.weight_decay`` 0, so that text rows of
    the embedding stay what they are."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights, but for those that are trained beside adapters; CUDA trains in bfloat16 either way."""
    checkpointing: bool = False
    """Gradient checkpointing: a third more time, a fraction of the memory."""
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    """Optimisation and early stopping."""

    @model_validator(mode="after")
    def _adapters_have_something_to_adapt(self) -> Self:
        if self.lora is not None and self.checkpoint is None:
            raise ValueError("lora: adapters need a checkpoint to adapt; a network from scratch is trained in full")
        if self.lora is not None and self.training.weight_decay:
            raise ValueError("training.weight_decay must be 0 with lora: it would move the text rows of the embedding")
        return self

    def saved_shape(self, network: NetworkShape, **text: Any) -> CausalShape:
        """The shape of a recommender on ``network``; ``text`` gives the fields that a checkpoint needs beside."""
        shared = {"history_limit", "dropout", "precision", "checkpointing"}
        return CausalShape(network=network, **self.model_dump(include=shared), **text)


# Hub ids. TRACER names Qwen2.5-7B. MiniOneRec takes its base model as a parameter; its issues name 0.5B to 7B and the
# public reproductions with numbers are those of 1.5B, so that one can be compared with them.
_PAPER, _OFFICIAL = "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-1.5B"

PRESETS = {
    "smoke": MiniOneRecConfig(
        network=NetworkShape(hidden=64, ffn=128, layers=2, heads=4, groups=2),
        training=TrainingConfig(lr=6e-3, batch_size=32, epochs=14, warmup_steps=60, evaluations=4, valid_rows=500),
    ),
    "small": MiniOneRecConfig(
        network=NetworkShape(hidden=128, ffn=384, layers=3, heads=4, groups=2),
        dropout=0.1,
        training=TrainingConfig(lr=2e-3, batch_size=64, epochs=20, warmup_steps=80, **BY_PASSES),
    ),
    "paper": MiniOneRecConfig(
        checkpoint=_PAPER,
        lora=LoraShape(),
        precision="bfloat16",
        checkpointing=True,
        training=TrainingConfig(
            lr=1e-4, weight_decay=0.0, batch_size=128, rows_at_once=32, epochs=10, warmup_steps=100, evaluations=20
        ),
    ),
    "official": MiniOneRecConfig(
        checkpoint=_OFFICIAL,
        checkpointing=True,
        titles_to_title=True,
        unseen_prompt=True,
        training=TrainingConfig(
            lr=3e-4,
            weight_decay=0.0,
            batch_size=1024,
            rows_at_once=128,
            epochs=10,
            warmup_steps=20,
            schedule="linear",
            evaluations=20,
            valid_rows=5000,
        ),
    ),
}

# MiniOneRec's tokenizer: the whole catalogue a batch, last-level Sinkhorn re-encoding, duplicates kept.
_OFFICIAL_SIDS = SidConfig(
    quantiser="rqvae",
    dim=32,
    hidden=(2048, 1024, 512, 256, 128, 64),
    epochs=10_000,
    batch_size=20_480,
    warmup_epochs=50,
    dead_code_epochs=0,
    kmeans_iterations=100,
    collision_token=False,
)
_SIDS = {**SID_PRESETS, "official": _OFFICIAL_SIDS}
"""TIGER's tokenizer with a collision level, but for ``official``."""


class MiniOneRec(Backbone[MiniOneRecConfig, SidConfig]):
    """MiniOneRec (arXiv 2510.24431): Qwen2 over semantic IDs, from scratch or from a pretrained text model."""

    name = "mor"
    recommender = "genrec_unlearn_bench.backbones.minionerec.recommender:CausalRecommender"
    task = "genrec_unlearn_bench.backbones.minionerec.training:training_task"
    Config = MiniOneRecConfig
    presets = PRESETS
    sid_presets = _SIDS
    smoke_limits: ClassVar[Mapping[str, int]] = {"training.max_steps": 1800}

    @classmethod
    def label(cls, config: MiniOneRecConfig, sids: SidConfig) -> str:
        return cls.name if config.checkpoint else f"{cls.name} (from scratch)"

    @classmethod
    def capabilities(cls, config: MiniOneRecConfig, sids: SidConfig) -> frozenset[Capability]:
        found = super().capabilities(config, sids)
        return found | {Capability.TEXT_TASKS} if config.checkpoint and config.text_tasks else found
