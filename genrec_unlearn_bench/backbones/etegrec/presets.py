"""ETEGRec at each scale."""

from __future__ import annotations

from genrec_unlearn_bench.backbones.backbone import Scale
from genrec_unlearn_bench.backbones.etegrec.config import AlignmentConfig, EtegrecConfig, EtegrecSidConfig, JointConfig
from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig
from genrec_unlearn_bench.backbones.t5 import T5Shape
from genrec_unlearn_bench.backbones.training_config import TrainingConfig

__all__ = ["PRESETS", "SID_PRESETS"]

PRESETS = {
    Scale.SMOKE: EtegrecConfig(
        shape=T5Shape(d_model=64, d_kv=16, d_ff=256, layers=2, heads=4, dropout=0.0, history_limit=6),
        initial_deviation=0.1,
        joint=JointConfig(epochs=6, warm_epoch=2, batch_size=128, warmup_steps=60, patience=4, valid_rows=400),
        second=TrainingConfig(
            lr=3e-3, weight_decay=0.05, batch_size=128, epochs=4, warmup_steps=0, evaluations=3, valid_rows=400
        ),
        alone=TrainingConfig(
            lr=5e-3, weight_decay=0.05, batch_size=128, epochs=7, warmup_steps=60, evaluations=4, valid_rows=400
        ),
    ),
    # About 78 steps an epoch on Industrial: 8 recommender epochs in turns, 8 more on the frozen codes, as many steps as
    # TIGER's small preset takes.
    Scale.SMALL: EtegrecConfig(
        shape=T5Shape(d_model=128, d_kv=32, d_ff=512, layers=2, heads=4, history_limit=10),
        initial_deviation=0.1,
        joint=JointConfig(
            epochs=16, warm_epoch=4, batch_size=256, lr_recommender=2e-3, warmup_steps=150, patience=4, valid_rows=1000
        ),
        second=TrainingConfig(
            lr=1e-3, weight_decay=0.05, batch_size=256, epochs=8, warmup_steps=0, evaluations=8, patience=3
        ),
        alone=TrainingConfig(
            lr=2e-3, weight_decay=0.05, batch_size=256, epochs=16, warmup_steps=150, evaluations=8, patience=3
        ),
    ),
    # TRACER names no sizes of ETEGRec's recommender: the official ones.
    Scale.PAPER: EtegrecConfig(),
    Scale.OFFICIAL: EtegrecConfig(alignment=AlignmentConfig(compat_sign=True)),
}

SID_PRESETS = {
    Scale.SMOKE: EtegrecSidConfig(
        levels=3,
        codes=32,
        dim=16,
        hidden=(64,),
        epochs=400,
        kmeans_iterations=20,
        ordinals=64,
        sasrec=SasRecConfig(dim=32, layers=1, history_limit=10, epochs=15, patience=5),
    ),
    Scale.SMALL: EtegrecSidConfig(
        levels=3, codes=256, dim=64, hidden=(128,), epochs=300, ordinals=256, sasrec=SasRecConfig(dim=64)
    ),
    # TRACER's grid, 3 x 256 x 64.
    Scale.PAPER: EtegrecSidConfig(levels=3, codes=256, dim=64, hidden=(512, 256), epochs=1000, weight_decay=1e-4),
    # 256 -> 512 -> 256 -> 128. Deviations of the shared RQ-VAE: a constant rate after the warm-up (official: linear
    # decay), dead codewords restarted, the checkpoint with the fewest collisions kept.
    Scale.OFFICIAL: EtegrecSidConfig(
        levels=3,
        codes=256,
        dim=128,
        hidden=(512, 256),
        epochs=10_000,
        weight_decay=1e-4,
        sasrec=SasRecConfig(dim=256, history_limit=50, epochs=200, patience=20),
    ),
}
