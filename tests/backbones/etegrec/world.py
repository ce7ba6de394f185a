"""64 items in 8 groups, walks in circles inside a group, and item vectors that show the groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.etegrec.backbone import (
    AlignmentConfig,
    Etegrec,
    EtegrecConfig,
    EtegrecSidConfig,
    JointConfig,
)
from genrec_unlearn_bench.backbones.etegrec.joint import JointTraining
from genrec_unlearn_bench.backbones.etegrec.recommender import EtegrecRecommender
from genrec_unlearn_bench.backbones.etegrec.tokenizer import LiveTokenizer
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from tests.planted import GROUPS, MEMBERS, catalogue, examples, sequences, sids

ITEMS = GROUPS * MEMBERS
SHAPE = T5Shape(d_model=32, d_kv=8, d_ff=64, layers=1, heads=4, dropout=0.0, history_limit=4)
SIDS = EtegrecSidConfig(levels=3, codes=16, dim=6, hidden=(16,), epochs=300, warmup_epochs=2, ordinals=8)
ALONE = TrainingConfig(lr=5e-3, batch_size=64, epochs=2, warmup_steps=5, evaluations=2, valid_rows=40)
CONFIG = EtegrecConfig(
    shape=SHAPE,
    initial_deviation=0.15,
    joint=JointConfig(
        epochs=4, warm_epoch=2, batch_size=64, lr_recommender=5e-3, lr_tokenizer=3e-3, warmup_steps=5, valid_rows=40
    ),
    alignment=AlignmentConfig(sia=0.01, psa=0.03),
    second=ALONE,
    alone=ALONE,
)


def data() -> TrainingData:
    torch.set_num_threads(1)
    latents = sids().latents
    assert latents is not None
    features = np.random.default_rng(9).normal(size=(ITEMS, 5)).astype(np.float32)
    train, valid = examples(sequences(60, 7, 1)), examples(sequences(10, 7, 2))
    return TrainingData(train, valid, catalogue(), features, np.ones(ITEMS, dtype=bool), latents)


def live(config: EtegrecSidConfig = SIDS, seed: int = 0) -> SidTable:
    return Etegrec.tokenise(config, data(), seed=seed, device="cpu", progress=Progress())


def fitted(table: SidTable, config: EtegrecConfig = CONFIG, seed: int = 0, progress: Progress | None = None) -> Any:
    return Etegrec.fit(config, data=data(), sids=table, seed=seed, device="cpu", progress=progress or Progress())


def fresh(table: SidTable, seed: int = 0) -> EtegrecRecommender:
    recommender = EtegrecRecommender.fresh(SHAPE, table.freeze(), seed=seed)
    recommender.rescale(0.3)
    recommender.module.eval()
    return recommender


def begun(table: SidTable, progress: Progress | None = None, config: EtegrecConfig = CONFIG) -> JointTraining:
    return JointTraining(fresh(table), LiveTokenizer.of(table), config, data().train, 0, "cpu", progress or Progress())
