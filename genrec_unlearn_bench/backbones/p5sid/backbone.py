"""P5-SID: a pretrained T5 prompted in words for the next item, with items as semantic IDs among the words.

Geng et al. 2022 (P5, arXiv 2203.13366), Hua et al. 2023 (how to index items, arXiv 2305.06569), Xu et al. 2024 (OpenP5,
arXiv 2306.07134). The name stands for three models in the literature. Here it is P5's prompts over codebook IDs, as
TRACER needs codebooks; the tree indexers of Hua et al. are options (``indexer``). Retraining numbers users anew among
those that are left; ``retrain-full`` makes the IDs anew as well. Deviations: docs/backbones.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from genrec_unlearn_bench.backbones.backbone import Backbone, TrainingData
from genrec_unlearn_bench.backbones.config import BackboneConfig, T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.tiger import TIGER_PRESETS
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.config import SID_PRESETS, SidConfig
from genrec_unlearn_bench.sids.p5 import digit_pieces
from genrec_unlearn_bench.sids.table import SidTable


class P5Config(BackboneConfig):
    """The network, its prompts and its training."""

    checkpoint: str | None = None
    """Hub id or folder of a pretrained T5 (``t5-small``); none trains a network of ``shape`` from scratch, which is
    another model and is called so in every result."""
    shape: T5Shape = Field(default_factory=T5Shape)
    """Architecture from scratch, and how many items of a history are read; a checkpoint brings its own architecture."""
    whole_words: bool = True
    """Add whole-word embeddings to the encoder's input."""
    separator: bool = True
    """Put a comma between items."""
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    """Optimisation and early stopping."""

    @model_validator(mode="after")
    def _users_are_words(self) -> P5Config:
        if self.shape.user_tokens:
            raise ValueError("shape.user_tokens must be 0: prompts name users in words")
        return self


PRESETS = {
    # Commas are left out where every encoder position counts; whole-word embeddings mark the items all the same.
    "smoke": P5Config(shape=TIGER_PRESETS["smoke"].shape, separator=False, training=TIGER_PRESETS["smoke"].training),
    "small": P5Config(shape=TIGER_PRESETS["small"].shape, separator=False, training=TIGER_PRESETS["small"].training),
    # TRACER's paper gives P5-SID no settings of its own: its tokenizer's grid, and the family's text model.
    "paper": P5Config(
        checkpoint="t5-small",
        training=TrainingConfig(
            lr=1e-3, batch_size=128, epochs=50, warmup_steps=1000, evaluations=50, patience=10, valid_rows=5000
        ),
    ),
    # LLM-RecSys-ID: 20 epochs of ten samples an interaction, one a wording, 64 rows on each of two GPUs. On Beauty
    # (131,413 train targets) its logs count 205,340 steps, of which 10,267 warm up; here 205,400 and 10,270.
    "official": P5Config(
        checkpoint="t5-small",
        training=TrainingConfig(
            lr=1e-3,
            epsilon=1e-6,
            batch_size=128,
            epochs=20 * 10,
            warmup_steps=0.05,
            schedule="linear",
            evaluations=20,
            patience=20,
            valid_rows=5000,
        ),
    ),
}


class P5SidConfig(SidConfig):
    """Which indexer, and its options; those of ``SidConfig`` are the first one's."""

    indexer: Literal["rqvae", "sequential", "collaborative"] = "rqvae"
    """Codebooks over item texts (RQ-VAE or residual k-means, as ``quantiser`` says: TRACER's setting), numbers by first
    appearance, or clusters of co-occurrence (Hua et al. 2023). The last two are trees without codebooks."""
    start: int = Field(default=1001, ge=0)
    """Sequential: the first number; 1001 is OpenP5's, 1 that of Hua et al."""
    digits: int = Field(default=2, ge=1, le=9)
    """Sequential: digits a piece, from the left, where no tokenizer is named."""
    number_tokenizer: str | None = None
    """Sequential: hub id or folder of a pretrained T5 whose tokenizer cuts the numbers into its own sub-words."""
    clusters: int = Field(default=20, ge=2)
    """Collaborative: clusters that a cluster is split into."""
    leaf_size: int = Field(default=500, ge=2)
    """Collaborative: most items of a cluster that is not split any more; at least ``clusters``."""
    cluster_tokens: int = Field(default=500, ge=2)
    """Collaborative: cluster tokens before their numbering begins anew."""

    @model_validator(mode="after")
    def _leaves_hold_a_split(self) -> P5SidConfig:
        if self.leaf_size < self.clusters:
            raise ValueError(f"leaf_size ({self.leaf_size}) must not be below clusters ({self.clusters})")
        if self.cluster_tokens <= self.clusters:
            raise ValueError(f"cluster_tokens ({self.cluster_tokens}) must exceed clusters ({self.clusters})")
        return self


_TREES: dict[str, dict[str, int | str]] = {
    "smoke": {"clusters": 8, "leaf_size": 24, "cluster_tokens": 100},
    "small": {"leaf_size": 100},
    "paper": {"number_tokenizer": "t5-small"},
    "official": {"number_tokenizer": "t5-small"},
}
_SIDS = {
    scale: P5SidConfig.model_validate({**SID_PRESETS[scale].model_dump(), **trees}) for scale, trees in _TREES.items()
}
"""Codebooks as TIGER has them at the same scale, and the options of the trees."""


class P5Sid(Backbone[P5Config, P5SidConfig]):
    """P5 prompts over semantic IDs, on a pretrained T5 (from scratch without one, and then named so)."""

    name = "p5sid"
    recommender = "genrec_unlearn_bench.backbones.p5sid.recommender:P5Recommender"
    task = "genrec_unlearn_bench.backbones.p5sid.recommender:training_task"
    Config = P5Config
    presets = PRESETS
    sid_presets = _SIDS
    reads_index = False
    # A prompt's own words make a step half as long again as TIGER's.
    smoke_limits: ClassVar[Mapping[str, int]] = {"training.max_steps": 900}

    @classmethod
    def label(cls, config: P5Config, sids: P5SidConfig) -> str:
        notes = [] if config.checkpoint else ["from scratch"]
        notes += [] if sids.indexer == "rqvae" else [sids.indexer]
        return f"{cls.name} ({', '.join(notes)})" if notes else cls.name

    @classmethod
    def capabilities(cls, config: P5Config, sids: P5SidConfig) -> frozenset[Capability]:
        return frozenset({Capability.HAS_CODEBOOKS if sids.indexer == "rqvae" else Capability.RAGGED_SIDS})

    @classmethod
    def reads_interactions(cls, config: P5SidConfig) -> bool:
        return config.indexer != "rqvae"

    @classmethod
    def tokenise(
        cls, config: P5SidConfig, data: TrainingData, *, seed: int, device: str, progress: Progress
    ) -> SidTable:
        """The semantic IDs of all items: codebooks over features, or a tree over the train interactions."""
        from genrec_unlearn_bench.sids.p5 import collaborative_table, sequential_table

        if config.indexer == "sequential":
            return sequential_table(data.train, len(data.items), start=config.start, pieces=_number_pieces(config))
        if config.indexer == "collaborative":
            return collaborative_table(
                data.train,
                len(data.items),
                clusters=config.clusters,
                leaf_size=config.leaf_size,
                tokens=config.cluster_tokens,
                slack=config.collision_slack,
                seed=derive(seed, "clusters"),
            )
        return super().tokenise(config, data, seed=seed, device=device, progress=progress)


def _number_pieces(config: P5SidConfig) -> Callable[[int], list[str]]:
    from genrec_unlearn_bench.backbones.p5sid.prompts import SubwordTokenizer
    from genrec_unlearn_bench.backbones.pretrained import load_pretrained

    if config.number_tokenizer is None:
        return partial(digit_pieces, width=config.digits)
    loaded = load_pretrained(config.number_tokenizer, "t5")
    return SubwordTokenizer(loaded.tokenizer, loaded.model.get_input_embeddings().num_embeddings).number_pieces
