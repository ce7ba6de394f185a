"""Configuration of SASRec (Kang and McAuley 2018, arXiv 1808.09781) and its presets."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

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
    """Most recent items that are read; fewer where no train history is that long."""
    loss: Literal["ce", "bce"] = "ce"
    """Softmax over the catalogue (RecBole's, the stronger one) or one sampled negative (the paper's own)."""
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


_PRESETS = {
    "smoke": SasRecConfig(dim=32, layers=1, history_limit=10, lr=3e-3, epochs=30, patience=5),
    "small": SasRecConfig(patience=5),
    "paper": SasRecConfig(epochs=200),
    "official": SasRecConfig(epochs=200, patience=20),
}


def sasrec_preset(scale: str) -> SasRecConfig:
    """SASRec as a reference row at ``smoke``, ``small``, ``paper`` or ``official``."""
    return _PRESETS[scale]
