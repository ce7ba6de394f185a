"""Configuration that all backbones share: scales, training, learning-rate schedule, the T5's architecture and SASRec.

Nothing here imports torch: a request is resolved from configuration alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel


class Scale(StrEnum):
    """Presets of one configuration, not separate code."""

    SMOKE = "smoke"
    SMALL = "small"
    PAPER = "paper"
    OFFICIAL = "official"


class BackboneConfig(StrictModel):
    """Base of a backbone's configuration."""


class T5Shape(StrictModel):
    """Architecture of a T5, and how much of a history it reads."""

    d_model: int = 128
    """Width of the residual stream."""
    d_kv: int = 64
    """Width of one attention head."""
    d_ff: int = 1024
    """Width of the feed-forward layers (T5 v1.0: ReLU, not gated)."""
    layers: int = 4
    """Encoder blocks; as many decoder blocks."""
    heads: int = 6
    """Attention heads."""
    dropout: float = 0.1
    """Dropout probability."""
    history_limit: int = 20
    """Most recent items the encoder reads."""
    user_tokens: int = 0
    """Hashed user tokens put before the history (TIGER: 2000); 0 puts none."""


class TrainingConfig(StrictModel):
    """How a recommender is trained."""

    lr: float = Field(default=1e-3, gt=0)
    """Peak learning rate of AdamW."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW."""
    batch_size: int = Field(default=256, ge=1)
    """Examples per step, over all processes."""
    epochs: int = Field(default=100, ge=1)
    """Most passes over the train examples."""
    max_steps: int | None = Field(default=None, ge=1)
    """Most steps, where that comes first."""
    warmup_steps: int = Field(default=200, ge=0)
    """Steps of linear warm-up (at most a tenth of all steps is used)."""
    schedule: Literal["cosine", "inverse-sqrt", "constant"] = "cosine"
    """Learning rate after the warm-up; inverse-sqrt is TIGER's own."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    evaluations: int = Field(default=10, ge=1)
    """How often validation NDCG@10 is measured over the whole training."""
    patience: int = Field(default=3, ge=1)
    """Evaluations without a better value before training stops."""
    temperature: float = Field(default=1.0, gt=0)
    """Logits are divided by it in the loss: LETTER's ranking temperature; 1 is plain cross-entropy."""
    valid_rows: int = Field(default=1000, ge=1)
    """Validation examples used for early stopping (a seeded sample)."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of products in training on a CPU (``cpu_kernels.bfloat16_products``): bfloat16 is faster where the processor has
    AVX512-BF16 or AMX, and slower elsewhere. CUDA trains in bfloat16 either way; unlearning on a CPU is in float32."""
    rows_at_once: int | None = Field(default=None, ge=1)
    """Micro-batch size: less memory, the same gradient (micro-batches weigh by their terms). None takes next items in
    micro-batches that fit a CPU's caches, and everything else at once."""

    def steps(self, samples: int) -> int:
        """Most steps that a training on so many samples may take."""
        all_epochs = self.epochs * math.ceil(samples / self.batch_size)
        return min(all_epochs, self.max_steps or all_epochs)


@dataclass(frozen=True)
class Schedule:
    """Learning-rate factor by step."""

    kind: str
    warmup: int
    total: int

    def factor(self, step: int) -> float:
        """Share of the peak learning rate at a 0-based step."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        if self.kind == "constant":
            return 1.0
        if self.kind == "inverse-sqrt":
            return math.sqrt(max(self.warmup, 1) / (step + 1))
        done = (step - self.warmup) / max(self.total - self.warmup, 1)
        return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


class SasRecConfig(StrictModel):
    """SASRec (Kang and McAuley 2018, arXiv 1808.09781) and its training: a softmax over the catalogue, as RecBole's."""

    dim: int = Field(default=64, ge=2)
    """Width of item embeddings and of the network: the width of the collaborative vectors."""
    layers: int = Field(default=2, ge=1)
    """Self-attention blocks."""
    heads: int = Field(default=2, ge=1)
    """Attention heads; they divide ``dim``."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout probability."""
    history_limit: int = Field(default=50, ge=1)
    """Most recent items that are read; fewer where no train history is that long."""
    lr: float = Field(default=1e-3, gt=0)
    """Adam learning rate."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay."""
    batch_size: int = Field(default=128, ge=1)
    """Sequences per step; every position of a sequence is a training target."""
    epochs: int = Field(default=100, ge=1)
    """Most passes over the train sequences."""
    patience: int = Field(default=10, ge=1)
    """Epochs without a better validation NDCG@10 before training stops."""
    valid_rows: int = Field(default=5000, ge=1)
    """Validation examples used for early stopping (a seeded sample)."""

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.dim % self.heads:
            raise ValueError(f"{self.heads} attention heads do not divide the width {self.dim}")
        return self


SASREC_PRESETS = {
    "smoke": SasRecConfig(dim=32, layers=1, history_limit=10, lr=3e-3, epochs=30, patience=5),
    "small": SasRecConfig(patience=5),
    "paper": SasRecConfig(epochs=200),
    "official": SasRecConfig(epochs=200, patience=20),
}
"""SASRec as a reference row, by scale."""
