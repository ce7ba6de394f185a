"""Configuration of the tokenizers that give items their semantic IDs, and their presets."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel


class SidConfig(StrictModel):
    """RQ-VAE or residual k-means over item features; or the IDs of an index file (``sids.imported``)."""

    index: str = Field(default="", exclude_if=lambda digest: not digest)
    """blake2b-256 of an index file that the IDs are read from (``--sids``); then only ``collision_token`` and
    ``collision_slack`` count. Empty, and written nowhere, where a tokenizer makes them."""
    quantiser: Literal["rqvae", "rkmeans"] = "rkmeans"
    """RQ-VAE (Lee et al. 2022; TIGER) or residual k-means (GRID: about as good, and free of training)."""
    levels: int = Field(default=3, ge=1, le=8)
    """Number of codebooks."""
    codes: int = Field(default=256, ge=2)
    """Codewords per level."""
    dim: int = Field(default=64, ge=2)
    """Width of the quantised latent. Residual k-means projects the features to it by PCA (0 variance lost where the
    features are narrower)."""
    collision_token: bool = True
    """Append TIGER's ordinal level, so that every item has a SID of its own; off keeps duplicates (MiniOneRec)."""
    collision_slack: int = Field(default=4, ge=0)
    """Spare ordinals beyond the largest collision group, for items that a method moves later."""
    kmeans_iterations: int = Field(default=50, ge=1)
    """Lloyd iterations of residual k-means and of the RQ-VAE's k-means initialisation."""
    hidden: tuple[int, ...] = (512, 256, 128)
    """RQ-VAE: widths of the encoder between the features and ``dim`` (the decoder mirrors them)."""
    epochs: int = Field(default=300, ge=1)
    """RQ-VAE: passes over the items."""
    batch_size: int = Field(default=1024, ge=1)
    """RQ-VAE: items per step."""
    lr: float = Field(default=1e-3, gt=0)
    """RQ-VAE: AdamW learning rate."""
    weight_decay: float = Field(default=0.0, ge=0)
    """RQ-VAE: AdamW weight decay."""
    warmup_epochs: int = Field(default=10, ge=0)
    """RQ-VAE: epochs of linear warm-up."""
    linear_decay: bool = Field(default=False, exclude_if=lambda decay: not decay)
    """RQ-VAE: let the rate fall to 0 at the last step after the warm-up (ETEGRec); it stays otherwise."""
    beta: float = Field(default=0.25, ge=0)
    """RQ-VAE: weight of the commitment term."""
    dead_code_epochs: int = Field(default=20, ge=0)
    """RQ-VAE: restart codewords unused for so many epochs at the worst-quantised items; 0 never does."""
    sinkhorn: Literal["off", "last", "all"] = "off"
    """Levels whose assignments are balanced by Sinkhorn in training (LETTER: last)."""
    sinkhorn_epsilon: float = Field(default=0.003, gt=0)
    """Entropy of the Sinkhorn plan on distances scaled to [-1, 1]."""
    sinkhorn_iterations: int = Field(default=50, ge=1)
    """Sinkhorn iterations."""
    resolve_rounds: int = Field(default=20, ge=0)
    """Rounds of post-hoc Sinkhorn re-encoding of colliding items on the last codebook (MiniOneRec, LETTER);
    0 leaves collisions to the collision token."""


class LetterSidConfig(SidConfig):
    """LETTER's RQ-VAE (Wang et al. 2024, arXiv 2405.07314), with collaborative and diversity regularisation."""

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
    clustering: Literal["exact", "batched"] = Field(default="exact", exclude_if=lambda kind: kind == "exact")
    """One k-means a codebook, of optimal assignments, on the CPU; or the best of ten, as officially, for all codebooks
    at once on the device that trains: 0.3 s on one core for four codebooks of 256, where the first takes 0.1 to 5."""

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


SID_PRESETS = {
    # A few hundred items: 32 codes give about a dozen items a first code, and 32^3 leaves room to move them.
    "smoke": SidConfig(quantiser="rkmeans", levels=3, codes=32, dim=16, kmeans_iterations=20, resolve_rounds=0),
    # The paper's grid, 3 x 256 x 64, so that overlap means the same, from residual k-means: GRID finds it about as
    # good as an RQ-VAE, and it takes seconds.
    "small": SidConfig(quantiser="rkmeans", levels=3, codes=256, dim=64, resolve_rounds=0),
    # The paper names the grid alone. 1000 epochs: on 3,686 items the reconstruction error falls from 0.37 (300 epochs)
    # to 0.26 (900) in three CPU minutes, ever more slowly.
    "paper": SidConfig(quantiser="rqvae", levels=3, codes=256, dim=64, epochs=1000, resolve_rounds=0),
    # TIGER (Rajput et al. 2023): 3 x 256 x 32, 20,000 epochs; hidden 512-256-128, beta 0.25 and batches of 1024 are
    # the defaults.
    # Deviation: AdamW at 1e-3 as in the public codes built on it, for Adagrad at 0.4; meant for a GPU.
    "official": SidConfig(quantiser="rqvae", levels=3, codes=256, dim=32, epochs=20_000, resolve_rounds=0),
}
"""The tokenizer of TIGER by scale.

All of them tell colliding items apart by TIGER's ordinal level and none re-encodes them first, so codes are plain
nearest codewords on every quantised level, which methods that reassign codes start from.
"""

LETTER_PRESETS = {
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
    # The repository's, alpha that of its script (0.1 where none is named): duplicates stay, no warm-up, no codeword is
    # ever restarted. Meant for a GPU.
    "official": LetterSidConfig(
        dim=32,
        hidden=(2048, 1024, 512, 256, 128, 64),
        epochs=20_000,
        warmup_epochs=0,
        dead_code_epochs=0,
        recluster_epochs=1,
        clustering="batched",
        alpha=0.01,
        collision_token=False,
    ),
}
"""LETTER's tokenizer by scale: four levels at every one.

Colliding items are re-encoded on the last codebook (twenty rounds, the default). The collision level distinguishes what
still collides, but for ``official``, which keeps duplicates as the repository does.
"""
