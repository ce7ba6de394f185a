"""Configuration that all backbones share: scales, training, learning-rate schedule, the T5's architecture and SASRec.

Nothing here imports torch: a request is resolved from configuration alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel


class Scale(StrEnum):
    """Presets of one configuration, not separate code."""

    SMOKE = "smoke"
    SMALL = "small"
    PAPER = "paper"
    OFFICIAL = "official"


LIMIT: Any = Field(default=None, gt=0, exclude_if=lambda value: value is None)
"""A limit that few set: keys and records of configurations without it are as they were before it existed."""


class BackboneConfig(StrictModel):
    """Base of a backbone's configuration."""

    max_hours: float | None = LIMIT
    """Most hours of wall-clock that training one model may take (``--max-hours``). What is ended by it depends on the
    machine's speed and says so in the record; under this setting every training has a key of its own."""


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
    epsilon: float = Field(default=1e-8, gt=0, exclude_if=lambda epsilon: epsilon == 1e-8)
    """Added to the root of AdamW's second moments."""
    batch_size: int = Field(default=256, ge=1)
    """Examples per step, over all processes."""
    epochs: int = Field(default=100, ge=1)
    """Most passes over the train examples."""
    max_steps: int | None = Field(default=None, ge=1)
    """Most steps, where that comes first."""
    warmup_steps: int | float = Field(default=200, ge=0, allow_inf_nan=False)
    """Steps of linear warm-up; below 1 a share of all steps. At most a tenth of all steps is used."""
    schedule: Literal["cosine", "linear", "inverse-sqrt", "constant"] = "cosine"
    """Learning rate after the warm-up: down to 0 at the last step (cosine, linear), TIGER's (inverse-sqrt), or flat."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    evaluations: int | None = Field(default=10, ge=1)
    """How often validation NDCG@10 is measured over the whole training; null: after every pass."""
    patience: int = Field(default=3, ge=1)
    """Evaluations without a better value before training stops: passes, where every pass is evaluated."""
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
        all_epochs = self.epochs * self.steps_per_pass(samples)
        return min(all_epochs, self.max_steps or all_epochs)

    def rates(self, total: int) -> Schedule:
        """The learning rate over ``total`` steps, as a share of ``lr``."""
        warmup = round(self.warmup_steps * (total if self.warmup_steps < 1 else 1))
        return Schedule(self.schedule, min(warmup, max(total // 10, 1)), total)

    def steps_per_pass(self, samples: int) -> int:
        """Steps that one pass over so many samples takes."""
        return math.ceil(samples / self.batch_size)

    def evaluation_steps(self, samples: int) -> int:
        """Steps from one evaluation to the next."""
        if self.evaluations is None:
            return self.steps_per_pass(samples)
        return math.ceil(self.steps(samples) / self.evaluations)

    def budget(self, samples: int) -> str:
        """What a training on so many samples may take, for people."""
        total, each = self.steps(samples), self.steps_per_pass(samples)
        stale = self.patience * self.evaluation_steps(samples) / each
        return (
            f"at most {total / each:.3g} passes over {samples:,} samples ({total:,} steps of {self.batch_size}); "
            f"ends once validation NDCG@10 has not risen for {stale:.3g} passes"
        )


BY_PASSES: dict[str, Any] = {"evaluations": None, "patience": 5, "valid_rows": 5000}
"""When ``small`` stops training: five passes over the data without a better validation NDCG@10."""


@dataclass(frozen=True)
class Schedule:
    """Learning-rate factor by step: transformers' schedules, whose warm-up begins at rate 0, one step ahead there."""

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
        return max(1 - done, 0.0) if self.kind == "linear" else 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


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
    max_scores: int | None = LIMIT
    """Most scores (targets times items of the softmax) that the training may compute."""
    max_hours: float | None = LIMIT
    """As ``BackboneConfig.max_hours``."""

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
SASREC_SMOKE_SCORES = 8_000_000_000
"""``SasRecConfig.max_scores`` at smoke scale on other data than the demo: 6 passes over Amazon Toys."""
