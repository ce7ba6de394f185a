"""Small causal recommenders with peaked logits, from scratch and from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from genrec_unlearn_bench.backbones.config import TrainingConfig
from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, MiniOneRec, MiniOneRecConfig, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.sids.table import SidTable
from tests.backbones.checkpoints import qwen_folder

SIZES = (6, 7, 5)
ITEMS = 40


def table(*, ragged: bool = False, seed: int = 0) -> SidTable:
    codes = np.random.default_rng(seed).integers(0, SIZES, size=(ITEMS, 3))
    if ragged:
        codes[::3, 2] = -1
    return SidTable(codes=codes, level_sizes=SIZES, quantised_levels=3)


def spread(model: Any, seed: int = 0) -> None:
    """Weights large enough for peaked logits, gains and biases away from 1 and 0."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.12 * torch.randn(parameter.shape, generator=draw))


def scratch(*, tied: bool = True, ragged: bool = False, seed: int = 0, **shape: Any) -> CausalRecommender:
    network = NetworkShape(hidden=32, ffn=48, layers=3, heads=4, groups=2, tied=tied)
    made = CausalShape(network=network, history_limit=5, **shape)
    recommender = CausalRecommender.fresh(made, table(ragged=ragged), seed=seed)
    spread(recommender.model, seed)
    recommender.module.eval()
    return recommender


def pretrained(folder: Path, *, tied: bool = True, **config: Any) -> CausalRecommender:
    if not (folder / "config.json").exists():
        qwen_folder(folder, tied=tied)
    # Adapters refuse weight decay.
    made = MiniOneRecConfig(
        checkpoint=str(folder), history_limit=5, training=TrainingConfig(weight_decay=0.0), **config
    )
    recommender = CausalRecommender.pretrained(made, str(folder), table(), seed=0, device="cpu")
    assert MiniOneRec.name == "mor"
    recommender.module.eval()
    return recommender


def histories() -> Histories:
    """Six histories: empty, short, as long as the limit, and longer."""
    return Histories.of([[3, 9, 9, 1], [], [7], [1, 2, 3, 4, 5], [30, 31, 32, 33, 34, 35, 36], [0, 39]])
