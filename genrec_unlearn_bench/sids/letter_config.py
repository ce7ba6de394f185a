"""Configuration of LETTER's tokenizer (Wang et al. 2024, arXiv 2405.07314) and its presets."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.sids.config import SidConfig

__all__ = ["LetterSidConfig", "letter_sid_preset"]


class LetterSidConfig(SidConfig):
    """An RQ-VAE with collaborative and diversity regularisation."""

    quantiser: Literal["rqvae"] = "rqvae"
    """LETTER is an RQ-VAE."""
    levels: int = Field(default=4, ge=1, le=8)
    """Number of codebooks."""
    dim: int = Field(default=32, ge=2)
    """Width of the quantised latent, and of the collaborative vectors it is aligned with."""
    weight_decay: float = Field(default=1e-4, ge=0)
    """AdamW weight decay."""
    sinkhorn: Literal["off", "last", "all"] = "last"
    """Levels whose assignments are balanced by Sinkhorn in training."""
    alpha: float = Field(default=0.1, ge=0)
    """Weight of the collaborative regularisation (InfoNCE with the collaborative vectors)."""
    beta_diversity: float = Field(default=1e-4, ge=0)
    """Weight of the diversity regularisation; ``beta`` is the commitment weight, as for every RQ-VAE."""
    clusters: int = Field(default=10, ge=1)
    """Clusters of each codebook for the diversity regularisation, at most half as many as there are codes."""
    recluster_epochs: int = Field(default=10, ge=1)
    """Epochs between two clusterings of the codebooks; the official code clusters before every epoch."""

    @model_validator(mode="after")
    def _clusters_have_pairs(self) -> Self:
        if 2 * self.clusters > self.codes:
            raise ValueError(f"{self.codes} codes do not fill {self.clusters} clusters of two or more")
        return self

    @property
    def cluster_bounds(self) -> tuple[int, int]:
        """Least and largest size of a cluster: two fifths and seven thirds of the mean size, as in the official code,
        where 256 codes in ten clusters give 10 to 60; two at least, so that every codeword has another."""
        mean = self.codes / self.clusters
        return max(2, math.floor(0.4 * mean)), math.ceil(7 / 3 * mean)


_PRESETS = {
    # A few hundred items and vectors of width 32.
    "smoke": LetterSidConfig(
        codes=32,
        dim=32,
        hidden=(64,),
        epochs=100,
        batch_size=256,
        clusters=4,
        recluster_epochs=20,
        kmeans_iterations=20,
    ),
    "small": LetterSidConfig(dim=64, hidden=(256, 128), epochs=300, recluster_epochs=30),
    # The paper's width, 64, and LETTER's four levels; epochs as for TIGER's tokenizer.
    "paper": LetterSidConfig(dim=64, epochs=1000),
    # The repository's: duplicates stay, no warm-up, no codeword is ever restarted. Meant for a GPU.
    "official": LetterSidConfig(
        dim=32,
        hidden=(2048, 1024, 512, 256, 128, 64),
        epochs=20_000,
        warmup_epochs=0,
        dead_code_epochs=0,
        recluster_epochs=1,
        collision_token=False,
    ),
}


def letter_sid_preset(scale: str) -> LetterSidConfig:
    """LETTER's tokenizer at ``smoke``, ``small``, ``paper`` or ``official``: four levels at every scale.

    Colliding items are re-encoded on the last codebook (twenty rounds, the default). What still collides is told
    apart by the collision level, but for ``official``, which keeps duplicates as the repository does.
    """
    return _PRESETS[scale]
