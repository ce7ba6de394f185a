from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genrec_unlearn_bench.backbones import load_backbone
from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import Scale, TrainingConfig
from genrec_unlearn_bench.backbones.minionerec.backbone import MiniOneRecConfig
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.sasrec import Popularity
from genrec_unlearn_bench.errors import ConfigError, DataMissing, UsageError
from genrec_unlearn_bench.pipeline.request import changed
from genrec_unlearn_bench.progress import Progress
from tests.backbones.checkpoints import qwen_folder
from tests.planted import catalogue, concept, examples, sequences, sids

MOR = load_backbone("mor")


def data() -> TrainingData:
    train, valid = examples(sequences(200, 8, 1)), examples(sequences(30, 8, 2))
    return TrainingData(train, valid, catalogue(), np.zeros((64, 2), dtype=np.float32), ~concept())


def fit(config: MiniOneRecConfig, seed: int = 0) -> Any:
    return MOR.fit(config, data=data(), sids=sids(), seed=seed, device="cpu", progress=Progress())


def hits(ranker: Any) -> float:
    part = examples(sequences(40, 8, 3))
    return float((ranker.recommend(part.histories(10), 5).ranks(part.targets) > 0).mean())


def test_presets_and_what_results_call_them() -> None:
    names = {scale: MOR.label(MOR.presets[scale], MOR.sid_presets[scale]) for scale in Scale}
    assert names == {
        Scale.SMOKE: "mor (from scratch)",
        Scale.SMALL: "mor (from scratch)",
        Scale.PAPER: "mor",
        Scale.OFFICIAL: "mor",
    }
    official, paper = MOR.sid_presets[Scale.OFFICIAL], MOR.sid_presets[Scale.PAPER]
    assert (official.levels, official.codes, official.dim, official.collision_token) == (3, 256, 32, False)
    assert (paper.levels, paper.codes, paper.dim, paper.quantiser) == (3, 256, 64, "rqvae")
    assert MOR.presets[Scale.PAPER].checkpoint == "Qwen/Qwen2.5-7B"
    for scale in Scale:
        texts = Capability.TEXT_TASKS in MOR.capabilities(MOR.presets[scale], MOR.sid_presets[scale])
        assert texts == (scale in (Scale.PAPER, Scale.OFFICIAL))
        assert MOR.presets[scale].history_limit == 10


@pytest.mark.slow
def test_from_scratch_it_learns_what_popularity_cannot() -> None:
    config = changed(
        MOR.presets[Scale.SMOKE], {"training.epochs": 12, "training.max_steps": 70, "network.hidden": 32}, where="test"
    )
    recommender = fit(config)
    assert hits(recommender) > 2 * hits(Popularity.fit(data().train, 64))
    assert np.array_equal(
        *(
            fit(changed(config, {"training.max_steps": 4}, where="test")).recommend(data().valid.histories(10), 5).items
            for _ in range(2)
        )
    )


@pytest.mark.slow
def test_a_checkpoint_is_trained_saved_and_read_again(tmp_path: Path) -> None:
    folder = qwen_folder(tmp_path / "qwen")
    config = MiniOneRecConfig(
        checkpoint=str(folder),
        lora={"rank": 2, "alpha": 4},
        checkpointing=True,
        training=TrainingConfig(
            lr=1e-2, weight_decay=0.0, batch_size=16, max_steps=3, evaluations=1, valid_rows=10, rows_at_once=8
        ),
    )
    recommender = fit(config)
    assert recommender.capabilities == MOR.capabilities(config, MOR.sid_presets[Scale.PAPER])
    recommender.save(tmp_path / "saved")
    again = MOR.load(tmp_path / "saved")
    part = data().valid
    batch, targets = part.histories(10, np.arange(12)), part.targets[:12]
    assert np.array_equal(again.target_log_probs(batch, targets), recommender.target_log_probs(batch, targets))
    assert np.array_equal(again.recommend(batch, 5).items, recommender.recommend(batch, 5).items)
    titles = [catalogue().titles[item] for item in range(4)]
    np.testing.assert_array_equal(
        *(m.align(np.arange(4), titles, to="title").logits.detach() for m in (recommender, again))
    )


def test_configurations_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    smoke = MOR.presets[Scale.SMOKE]
    with pytest.raises(ConfigError, match="need a checkpoint"):
        changed(smoke, {"lora": {"rank": 4}}, where="test")
    with pytest.raises(ConfigError, match="weight_decay must be 0"):
        changed(smoke, {"checkpoint": "./nowhere", "lora": {"rank": 4}}, where="test")
    with pytest.raises(DataMissing, match="the model cannot be loaded"):
        fit(changed(smoke, {"checkpoint": "./nowhere"}, where="test"))
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(UsageError, match="FSDP_VERSION 2"):
        fit(smoke)
