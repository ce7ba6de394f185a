"""Which semantic IDs P5-SID has: the options of its three indexers, and presets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from genrec_unlearn_bench.sids.config import SidConfig, sid_preset

__all__ = ["P5SidConfig", "p5_sid_preset"]


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


_SIDS: dict[str, dict[str, int | str]] = {
    "smoke": {"clusters": 8, "leaf_size": 24, "cluster_tokens": 100},
    "small": {"leaf_size": 100},
    "paper": {"number_tokenizer": "t5-small"},
    "official": {"number_tokenizer": "t5-small"},
}


def p5_sid_preset(scale: str) -> P5SidConfig:
    """The tokenizer's: codebooks as TIGER has them at the same scale, and the options of the trees."""
    return P5SidConfig.model_validate({**sid_preset(scale).model_dump(), **_SIDS[scale]})
