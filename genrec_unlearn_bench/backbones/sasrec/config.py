"""Configuration of SASRec (Kang and McAuley 2018, arXiv 1808.09781) and its presets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel

__all__ = ["SasRecConfig", "sasrec_preset"]


class SasRecConfig(StrictModel):
    """The network and its training."""

    dim: int = Field(default=64, ge=2)
    """Width of item embeddings and of the network: the width of the collaborative vectors."""
    layers: int = Field(default=2, ge=1)
    """Self-attention blocks."""
    heads: int = Field(default=2, ge=1)
    """Attention heads; they divide ``dim``."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """Dropout probability."""
    history_limit: int = Field(default=50, ge=1)
    """Most recent items that are read."""
    loss: Literal["ce", "bce"] = "ce"
    """Softmax over the catalogue (RecBole's, the stronger one) or one sampled negative (the paper's own)."""
    lr: float = Field(default=1e-3, gt=0)
    """Adam learning rate."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay."""
    batch_size: int = Field(default=256, ge=1)
    """Sequences per step; every position of a sequence is a training target."""
    epochs: int = Field(default=100, ge=1)
    """Most passes over the train sequences."""
    patience: int = Field(default=10, ge=1)
    """Epochs without a better validation NDCG@10 before training stops."""


_PRESETS = {
    "smoke": SasRecConfig(dim=32, layers=1, history_limit=10, epochs=15, patience=5),
    "small": SasRecConfig(),
    "paper": SasRecConfig(epochs=200),
    "official": SasRecConfig(epochs=200, patience=20),
}


def sasrec_preset(scale: str) -> SasRecConfig:
    """SASRec as a reference row at ``smoke``, ``small``, ``paper`` or ``official``."""
    return _PRESETS[scale]
