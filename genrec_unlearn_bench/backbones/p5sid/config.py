"""Configuration of P5-SID's recommender and its presets."""

from __future__ import annotations

from pydantic import Field, model_validator

from genrec_unlearn_bench.backbones.backbone import BackboneConfig, Scale
from genrec_unlearn_bench.backbones.t5 import T5Shape
from genrec_unlearn_bench.backbones.training import TrainingConfig

__all__ = ["P5Config", "p5_preset"]


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


_PRESETS = {
    # Commas are left out where every encoder position counts; whole-word embeddings mark the items all the same.
    Scale.SMOKE: P5Config(
        shape=T5Shape(d_model=64, d_kv=16, d_ff=256, layers=2, heads=4, dropout=0.0, history_limit=6),
        separator=False,
        training=TrainingConfig(lr=5e-3, batch_size=128, epochs=8, warmup_steps=60, evaluations=4, valid_rows=500),
    ),
    Scale.SMALL: P5Config(
        shape=T5Shape(d_model=128, d_kv=32, d_ff=512, layers=2, heads=4, history_limit=10),
        separator=False,
        # A prompt's own words make a step half as long again as TIGER's, so there are fewer.
        training=TrainingConfig(lr=1e-3, epochs=40, max_steps=1200, warmup_steps=120, evaluations=8, patience=3),
    ),
    # TRACER's paper gives P5-SID no settings of its own: its tokenizer's grid, and the family's text model.
    Scale.PAPER: P5Config(
        checkpoint="t5-small",
        training=TrainingConfig(
            lr=1e-3, batch_size=128, epochs=50, warmup_steps=1000, evaluations=50, patience=10, valid_rows=5000
        ),
    ),
    # LLM-RecSys-ID: AdamW at 1e-3, decay 0.01, two GPUs with 64 rows each, 20 epochs, the best on validation. Its
    # warm-up is 5 % of all steps: some 1,400 of 28,000 on Beauty.
    Scale.OFFICIAL: P5Config(
        checkpoint="t5-small",
        training=TrainingConfig(
            lr=1e-3,
            weight_decay=0.01,
            batch_size=128,
            epochs=20,
            warmup_steps=1400,
            evaluations=20,
            patience=20,
            valid_rows=5000,
        ),
    ),
}


def p5_preset(scale: Scale) -> P5Config:
    """The recommender's configuration at a scale."""
    return _PRESETS[scale]
