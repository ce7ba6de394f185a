"""Configuration of the tokenizer that gives items their semantic IDs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel

__all__ = ["SidConfig"]


class SidConfig(StrictModel):
    """RQ-VAE or residual k-means over item features."""

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
