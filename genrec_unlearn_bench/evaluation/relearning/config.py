"""How the attacks are made."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel

__all__ = ["RelearningConfig", "preset"]


class RelearningConfig(StrictModel):
    """Optimisation of all attacks: the same for every model, so that their curves can be compared."""

    steps: tuple[int, ...] = (0, 50, 100, 200, 500, 1000, 2000)
    """Optimiser steps after which the model is scored; the first is 0, the last ends the attack."""
    lr: float = Field(default=1e-4, gt=0)
    """AdamW learning rate, constant, without warm-up."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW (that of the relearning attack of PISCES)."""
    clip: float = Field(default=1.0, gt=0)
    """Largest gradient norm."""
    batch_size: int = Field(default=30, ge=5)
    """Examples per step: 6 concept and 24 retain targets in ``mixed``. TRACER does not say its own. An attack that has
    fewer examples takes all of them in each step."""
    passes: float = Field(default=100.0, gt=0)
    """Most passes over the attack's data, over its concept interactions where it has any. At 1 % of a forget set, 2,000
    steps are thousands of passes over a handful of examples: the weights are then a function of the step size, not of
    what the model still holds. Steps beyond the limit are not taken."""
    dropout: bool = False
    """Train with dropout on; off, so that step 0 is exactly the model under attack."""
    adapters: bool = False
    """Attack decoder-only models through low-rank adapters, with ``adapter_lr`` in place of ``lr``. All weights of
    encoder-decoders are trained at every scale."""
    adapter_rank: int = Field(default=16, ge=1)
    """Rank of the adapters, which sit in every linear layer of the blocks."""
    adapter_scale: float = Field(default=2.0, gt=0)
    """Their product is added times this (alpha 32 at rank 16)."""
    adapter_lr: float = Field(default=1e-5, gt=0)
    """AdamW learning rate of the adapters."""
    rows_at_once: int | None = Field(default=None, ge=1)
    """A step is taken in parts of that many examples: less memory, the same gradient. None takes it whole."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.steps[:1] != (0,) or len(self.steps) < 2 or any(a >= b for a, b in pairwise(self.steps)):
            raise ValueError("steps begin with 0, rise, and have an end")
        return self


_PRESETS = {
    # A thousandth of the catalogue's size: what can be learned is learned early.
    "smoke": RelearningConfig(steps=(0, 10, 20, 40)),
    "small": RelearningConfig(),
    "paper": RelearningConfig(adapters=True, rows_at_once=15),
    "official": RelearningConfig(adapters=True, rows_at_once=15),
}


def preset(scale: str) -> RelearningConfig:
    """The configuration at a scale."""
    return _PRESETS[scale]
