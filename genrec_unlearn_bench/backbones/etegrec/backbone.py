"""ETEGRec: item tokenization and recommendation trained in turns (Liu et al. 2025, SIGIR, arXiv 2409.05546).

``official`` holds the settings of the authors' code; ``paper`` puts TRACER's 3 x 256 x 64 grid on them. What follows
the official code and what does not, with reasons, is in ``docs/backbones.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from genrec_unlearn_bench.backbones.backbone import Backbone, TrainingData
from genrec_unlearn_bench.backbones.config import (
    BY_PASSES,
    LIMIT,
    BackboneConfig,
    SasRecConfig,
    Schedule,
    T5Shape,
    TrainingConfig,
)
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import imported
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import SidTable


class EtegrecSidConfig(SidConfig):
    """The RQ-VAE before joint training, what it reads, and the collision token."""

    quantiser: Literal["rqvae"] = "rqvae"
    """Joint training needs a network, which residual k-means has not."""
    collision_token: Literal[True] = True
    """Always there: a running index within the collision group, in item order. Never learned."""
    collision_slack: int = Field(default=0, ge=0, le=0)
    """Not used: the number of ordinals is fixed by ``ordinals``, since collision groups change during training."""
    resolve_rounds: int = Field(default=0, ge=0, le=0)
    """Not used: codes are nearest codewords at any time."""
    ordinals: int = Field(default=256, ge=2)
    """Size of the collision token's level. A larger group is an error, as in the official code (there: 256)."""
    item_features: Literal["cf", "text"] = "cf"
    """The item vectors: SASRec's (the official ones) or text embeddings."""
    sasrec: SasRecConfig = Field(default_factory=lambda: SasRecConfig(dim=256))
    """The SASRec whose item embeddings are the item vectors."""


class AlignmentConfig(StrictModel):
    """The two losses that tie tokenizer and recommender together, in both kinds of epochs."""

    sia: float = Field(default=1e-4, ge=0)
    """Weight of sequence-item alignment (the paper's mu)."""
    psa: float = Field(default=3e-4, ge=0)
    """Weight of preference-semantic alignment (the paper's lambda)."""
    temperature: float = Field(default=0.07, gt=0)
    """Of the cosine similarities of preference-semantic alignment."""
    compat_sign: bool = False
    """Use +distance as the logit of a code in sequence-item alignment, as the official code does; the paper's eq. 6
    has -distance. Both are zero at equality, but with + the far codes get the mass."""


class JointConfig(StrictModel):
    """Alternating training: in every cycle one tokenizer epoch, then recommender epochs."""

    epochs: int = Field(default=400, ge=2)
    """Most epochs of both kinds together."""
    cycle: int = Field(default=2, ge=2)
    """Epochs of a cycle: the first one trains the tokenizer, the others the recommender."""
    warm_epoch: int = Field(default=10, ge=0)
    """First epoch with alignment losses."""
    batch_size: int = Field(default=512, ge=1)
    """Examples per step."""
    parts: int = Field(default=1, ge=1, exclude_if=lambda parts: parts == 1)
    """Parts of a step with losses of their own (means over a part's distinct items), as on so many GPUs officially."""
    lr_recommender: float = Field(default=5e-3, gt=0)
    """Peak learning rate of the recommender's AdamW."""
    lr_tokenizer: float = Field(default=1e-4, gt=0)
    """Peak learning rate of the tokenizer's AdamW."""
    weight_decay: float = Field(default=0.05, ge=0)
    """Weight decay of both."""
    warmup_steps: int = Field(default=8000, ge=0)
    """Recommender steps of linear warm-up (at most a tenth of the schedule); the tokenizer takes 1/cycle of them."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    patience: int = Field(default=15, ge=1)
    """Cycles without a better validation NDCG@10 before this stage ends."""
    valid_rows: int = Field(default=5000, ge=1)
    """Validation examples used for early stopping (a seeded sample)."""
    epoch_steps: int | None = LIMIT
    """Most steps of an epoch; what is left of its pass is left out."""

    @model_validator(mode="after")
    def _whole_cycles(self) -> JointConfig:
        if self.epochs % self.cycle:
            raise ValueError(f"epochs ({self.epochs}) is no multiple of cycle ({self.cycle})")
        return self

    def rates(self, rows: int) -> tuple[Schedule, Schedule]:
        """Learning rates of recommender and tokenizer on so many train rows, as shares of their peaks by own steps."""
        steps = math.ceil(rows / self.batch_size)
        total = self.epochs * min(steps, self.epoch_steps or steps)
        warmup = min(self.warmup_steps, max(total // 10, 1))
        return Schedule("cosine", warmup, total), Schedule("cosine", warmup // self.cycle, total // self.cycle)


class EtegrecConfig(BackboneConfig):
    """The network and its trainings."""

    shape: T5Shape = Field(default_factory=lambda: T5Shape(layers=6, heads=4, d_ff=512, history_limit=50))
    """Architecture and history length."""
    initial_deviation: float = Field(default=0.02, gt=0)
    """Standard deviation of the initial weights, the official code's. Widths of 64 to 128 want about 0.1 (width to the
    power of -1/2) where training is short."""
    joint: JointConfig = Field(default_factory=JointConfig)
    """First stage: tokenizer and recommender take turns."""
    alignment: AlignmentConfig = Field(default_factory=AlignmentConfig)
    """What ties them together."""
    second: TrainingConfig = Field(
        default_factory=lambda: TrainingConfig(
            lr=5e-4, weight_decay=0.05, batch_size=512, warmup_steps=0, evaluations=100, patience=10, valid_rows=5000
        )
    )
    """Second stage: the best of the first is reloaded, the tokenizer frozen, the recommender trained on."""
    alone: TrainingConfig = Field(
        default_factory=lambda: TrainingConfig(
            lr=5e-3,
            weight_decay=0.05,
            batch_size=512,
            epochs=300,
            warmup_steps=8000,
            evaluations=150,
            patience=15,
            valid_rows=5000,
        )
    )
    """The recommender from scratch on a frozen table (``retrain`` on the deployed SIDs): as many epochs as the
    recommender gets in both stages of joint training together."""

    @model_validator(mode="after")
    def _no_user_tokens(self) -> EtegrecConfig:
        if self.shape.user_tokens:
            raise ValueError("ETEGRec reads no user tokens; set shape.user_tokens to 0")
        return self


_DEFAULT = EtegrecConfig()
PRESETS = {
    "smoke": EtegrecConfig(
        shape=T5Shape(d_model=64, d_kv=16, d_ff=256, layers=2, heads=4, dropout=0.0, history_limit=6),
        initial_deviation=0.1,
        joint=JointConfig(epochs=6, warm_epoch=2, batch_size=128, warmup_steps=60, patience=4, valid_rows=400),
        second=TrainingConfig(
            lr=3e-3, weight_decay=0.05, batch_size=128, epochs=4, warmup_steps=0, evaluations=3, valid_rows=400
        ),
        alone=TrainingConfig(
            lr=5e-3, weight_decay=0.05, batch_size=128, epochs=7, warmup_steps=60, evaluations=4, valid_rows=400
        ),
    ),
    # The recommender's passes: 12 in turns and 12 more on the frozen codes, or 24 alone.
    "small": EtegrecConfig(
        shape=T5Shape(d_model=128, d_kv=32, d_ff=512, layers=2, heads=4, history_limit=10),
        initial_deviation=0.1,
        joint=JointConfig(
            epochs=24, warm_epoch=4, batch_size=256, lr_recommender=2e-3, warmup_steps=150, patience=5, valid_rows=5000
        ),
        second=TrainingConfig(lr=1e-3, weight_decay=0.05, epochs=12, warmup_steps=0, **BY_PASSES),
        alone=TrainingConfig(lr=2e-3, weight_decay=0.05, epochs=24, warmup_steps=150, **BY_PASSES),
    ),
    # TRACER names no sizes of ETEGRec's recommender: the official ones.
    "paper": _DEFAULT,
    # Four GPUs with 512 rows each. The code's schedules count every GPU's step: their 8,000 steps of warm-up and 400
    # epochs of a single GPU's steps are passed in a quarter of the updates.
    "official": EtegrecConfig(
        alignment=AlignmentConfig(compat_sign=True),
        joint=JointConfig(batch_size=4 * 512, parts=4, warmup_steps=8000 // 4),
        second=_DEFAULT.second.model_copy(update={"batch_size": 4 * 512}),
        alone=_DEFAULT.alone.model_copy(update={"batch_size": 4 * 512, "warmup_steps": 8000 // 4}),
    ),
}

SID_PRESETS = {
    "smoke": EtegrecSidConfig(
        codes=32,
        dim=16,
        hidden=(64,),
        epochs=400,
        kmeans_iterations=20,
        ordinals=64,
        sasrec=SasRecConfig(dim=32, layers=1, history_limit=10, epochs=15, patience=5),
    ),
    "small": EtegrecSidConfig(dim=64, hidden=(128,), sasrec=SasRecConfig(dim=64)),
    # TRACER's grid, 3 x 256 x 64.
    "paper": EtegrecSidConfig(levels=3, codes=256, dim=64, hidden=(512, 256), epochs=1000, weight_decay=1e-4),
    # 256 -> 512 -> 256 -> 128; no codeword is ever restarted.
    "official": EtegrecSidConfig(
        dim=128,
        hidden=(512, 256),
        epochs=10_000,
        weight_decay=1e-4,
        warmup_epochs=50,
        linear_decay=True,
        dead_code_epochs=0,
        kmeans_iterations=100,
        sasrec=SasRecConfig(dim=256, epochs=200, patience=20),
    ),
}


class Etegrec(Backbone[EtegrecConfig, EtegrecSidConfig]):
    """ETEGRec (arXiv 2409.05546): tokenizer and T5 trained in turns, then the T5 alone."""

    name = "etegrec"
    recommender = "genrec_unlearn_bench.backbones.etegrec.recommender:EtegrecRecommender"
    Config = EtegrecConfig
    presets = PRESETS
    sid_presets = SID_PRESETS
    joint = "genrec_unlearn_bench.backbones.etegrec.joint:train_jointly"
    reads_index = False
    smoke_limits: ClassVar[Mapping[str, int]] = {
        "joint.epoch_steps": 100,
        "second.max_steps": 500,
        "alone.max_steps": 900,
    }

    @classmethod
    def capabilities(cls, config: EtegrecConfig, sids: EtegrecSidConfig) -> frozenset[Capability]:
        return frozenset({Capability.HAS_CODEBOOKS, Capability.JOINT_TOKENIZER})

    @classmethod
    def collaborative(cls, config: EtegrecConfig, sids: EtegrecSidConfig) -> SasRecConfig | None:
        return None if sids.item_features == "text" else sids.sasrec

    @classmethod
    def tokenise(
        cls, config: EtegrecSidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress
    ) -> SidTable:
        """Pre-train the tokenizer; the table carries it (``SidTable.network``) into joint training."""
        pretrain = imported("genrec_unlearn_bench.backbones.etegrec.tokenizer:pretrain")
        table: SidTable = pretrain(data, config, seed=seed, device=device, progress=progress)
        return table
