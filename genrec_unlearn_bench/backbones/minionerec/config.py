"""MiniOneRec's configuration and its presets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from genrec_unlearn_bench.backbones.backbone import BackboneConfig, Scale
from genrec_unlearn_bench.backbones.minionerec.shape import LoraShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.words import TaskWords
from genrec_unlearn_bench.backbones.training import TrainingConfig
from genrec_unlearn_bench.sids.config import SidConfig, sid_preset

__all__ = ["PRESETS", "MiniOneRecConfig", "mor_sid_preset"]


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
    words: TaskWords = Field(default_factory=TaskWords)
    """With a checkpoint: the prompts."""
    ending: bool = True
    """With a checkpoint: responses are taught to end (newline, end of sequence). Never scored."""
    title_tokens: int = Field(default=32, ge=1)
    """With a checkpoint: longest title, in tokens."""
    lora: LoraShape | None = None
    """With a checkpoint: adapters in place of full fine-tuning. Needs ``training.weight_decay`` 0, so that text rows of
    the embedding stay what they are."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights; CUDA computes in bfloat16 either way while training."""
    checkpointing: bool = False
    """Gradient checkpointing: a third more time, a fraction of the memory."""
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    """Optimisation and early stopping."""


# Hub ids. TRACER names Qwen2.5-7B. MiniOneRec takes its base model as a parameter; its issues name 0.5B to 7B and the
# public reproductions with numbers are those of 1.5B, so that one can be held against them.
_PAPER, _OFFICIAL = "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-1.5B"

PRESETS = {
    Scale.SMOKE: MiniOneRecConfig(
        network=NetworkShape(hidden=64, ffn=128, layers=2, heads=4, groups=2),
        training=TrainingConfig(lr=6e-3, batch_size=32, epochs=14, warmup_steps=60, evaluations=4, valid_rows=500),
    ),
    Scale.SMALL: MiniOneRecConfig(
        network=NetworkShape(hidden=128, ffn=384, layers=3, heads=4, groups=2),
        dropout=0.1,
        training=TrainingConfig(
            lr=2e-3, batch_size=64, epochs=16, warmup_steps=80, evaluations=8, patience=2, weight_decay=0.01
        ),
    ),
    Scale.PAPER: MiniOneRecConfig(
        checkpoint=_PAPER,
        lora=LoraShape(),
        precision="bfloat16",
        checkpointing=True,
        training=TrainingConfig(
            lr=1e-4,
            weight_decay=0.0,
            batch_size=128,
            rows_at_once=32,
            epochs=10,
            warmup_steps=100,
            evaluations=20,
            patience=3,
            valid_rows=1000,
        ),
    ),
    Scale.OFFICIAL: MiniOneRecConfig(
        checkpoint=_OFFICIAL,
        checkpointing=True,
        training=TrainingConfig(
            lr=3e-4,
            weight_decay=0.0,
            batch_size=1024,
            rows_at_once=128,
            epochs=10,
            warmup_steps=20,
            schedule="cosine",
            evaluations=20,
            patience=3,
            valid_rows=5000,
        ),
    ),
}

_OFFICIAL_SIDS = SidConfig(
    quantiser="rqvae",
    levels=3,
    codes=256,
    dim=32,
    hidden=(2048, 1024, 512, 256, 128, 64),
    epochs=10_000,
    batch_size=20_480,
    lr=1e-3,
    weight_decay=0.0,
    warmup_epochs=50,
    beta=0.25,
    dead_code_epochs=0,
    sinkhorn="off",
    resolve_rounds=20,
    collision_token=False,
)
"""MiniOneRec's tokenizer: the whole catalogue a batch, last-level Sinkhorn re-encoding, duplicates kept."""


def mor_sid_preset(scale: Scale) -> SidConfig:
    """The tokenizer at a scale: TIGER's with a collision level, but for ``official``."""
    return _OFFICIAL_SIDS if scale is Scale.OFFICIAL else sid_preset(scale.value)
