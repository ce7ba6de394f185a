"""TIGER: T5 trained from scratch to generate the next item's semantic ID.

Rajput et al. 2023, "Recommender systems with generative retrieval", arXiv 2305.05065. There is no official code;
the settings under ``official`` are the paper's. ``paper`` are those of TRACER (arXiv 2606.07688, implementation
details) with T5 of LETTER-TIGER's size (d 128, 4+4 layers, 6 heads, feed-forward 1024), as that paper gives none.

Deviations: no end-of-sequence token (all SIDs have the same length); decoding is constrained to the catalogue
(TIGER decodes freely and drops invalid IDs); AdamW in place of the paper's unnamed optimiser.
"""

from __future__ import annotations

from pydantic import Field

from genrec_unlearn_bench.backbones.backbone import Backbone
from genrec_unlearn_bench.backbones.config import BY_PASSES, BackboneConfig, T5Shape, TrainingConfig
from genrec_unlearn_bench.sids.config import SID_PRESETS, SidConfig


class TigerConfig(BackboneConfig):
    """The network and its training."""

    shape: T5Shape = Field(default_factory=T5Shape)
    """Architecture and history length."""
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    """Optimisation and early stopping."""


TIGER_PRESETS = {
    "smoke": TigerConfig(
        # A few hundred items seen a few thousand times: dropout and long histories only slow it down.
        shape=T5Shape(d_model=64, d_kv=16, d_ff=256, layers=2, heads=4, dropout=0.0, history_limit=6),
        training=TrainingConfig(lr=5e-3, batch_size=128, epochs=8, warmup_steps=60, evaluations=4, valid_rows=500),
    ),
    "small": TigerConfig(
        shape=T5Shape(d_kv=32, d_ff=512, layers=2, heads=4, history_limit=10),
        training=TrainingConfig(epochs=40, warmup_steps=150, **BY_PASSES),
    ),
    "paper": TigerConfig(
        shape=T5Shape(),
        training=TrainingConfig(
            lr=5e-4, batch_size=128, epochs=200, warmup_steps=2000, evaluations=100, patience=10, valid_rows=5000
        ),
    ),
    "official": TigerConfig(
        shape=T5Shape(user_tokens=2000),
        training=TrainingConfig(
            lr=1e-2,
            weight_decay=0.0,
            epochs=10_000,
            max_steps=200_000,
            warmup_steps=10_000,
            schedule="inverse-sqrt",
            evaluations=100,
            patience=100,
            valid_rows=5000,
        ),
    ),
}


class Tiger(Backbone[TigerConfig, SidConfig]):
    """TIGER (arXiv 2305.05065): T5 from scratch over RQ-VAE semantic IDs."""

    name = "tiger"
    Config = TigerConfig
    presets = TIGER_PRESETS
    sid_presets = SID_PRESETS
