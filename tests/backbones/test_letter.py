from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.backbones import load_backbone
from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import SASREC_PRESETS, Scale, T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.letter import Letter, LetterConfig
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.sasrec import Popularity, SasRec
from genrec_unlearn_bench.backbones.tiger import Tiger
from genrec_unlearn_bench.errors import ConfigError, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import LetterSidConfig
from tests.planted import catalogue, concept, examples, features, sequences, sids

SIDS = LetterSidConfig(levels=4, codes=16, dim=16, hidden=(32,), epochs=30, batch_size=64, clusters=4)
CONFIG = LetterConfig(
    shape=T5Shape(d_model=64, d_kv=16, d_ff=128, layers=1, heads=4, dropout=0.0, history_limit=4),
    training=TrainingConfig(lr=5e-3, batch_size=64, epochs=6, warmup_steps=20, evaluations=1, valid_rows=100),
    vectors=SASREC_PRESETS["smoke"].model_copy(update={"epochs": 8, "heads": 2, "lr": 1e-2}),
)


def data() -> TrainingData:
    known = ~concept()
    train, valid = examples(sequences(250, 9, 1)), examples(sequences(30, 9, 2))
    return TrainingData(train, valid, catalogue(), features(sids()).plain, known)


@pytest.fixture(scope="module")
def made() -> TrainingData:
    """With vectors of the SASRec that LETTER asks for."""
    plain = data()
    ranker = SasRec.fit(
        Letter.collaborative(CONFIG, SIDS),
        train=plain.train,
        valid=plain.valid,
        items=len(plain.items),
        seed=0,
        device="cpu",
        progress=Progress(),
    )
    return replace(plain, collaborative=ranker.item_vectors())


def test_it_is_found_by_name() -> None:
    assert load_backbone("letter") is Letter


@pytest.mark.parametrize("scale", list(Scale))
def test_presets_fit_together(scale: Scale) -> None:
    config, tokens = Letter.presets[scale], Letter.sid_presets[scale]
    assert Letter.collaborative(config, tokens).dim == tokens.dim
    assert tokens.levels == 4
    assert Letter.capabilities(config, tokens) == {Capability.HAS_CODEBOOKS}
    assert Letter.label(config, tokens) == "letter"
    if scale is not Scale.OFFICIAL:  # One SASRec serves as the reference row and for the vectors.
        assert Letter.collaborative(config, tokens) == SASREC_PRESETS[scale.value]


def test_the_official_preset_is_the_repositorys() -> None:
    config = Letter.presets[Scale.OFFICIAL]
    assert (config.shape.d_model, config.shape.d_ff, config.shape.layers, config.shape.heads) == (128, 1024, 4, 6)
    training = config.training
    assert (training.lr, training.weight_decay, training.batch_size, training.epochs) == (5e-4, 0.01, 1024, 200)
    assert training.temperature == 1.0


def test_the_vectors_width_is_the_tokenizers() -> None:
    wide = SIDS.model_copy(update={"dim": 24})
    assert Letter.collaborative(CONFIG, wide) == CONFIG.vectors.model_copy(update={"dim": 24})
    with pytest.raises(ConfigError, match="do not divide"):
        Letter.collaborative(CONFIG, SIDS.model_copy(update={"dim": 15}))


def test_missing_vectors_and_foreign_configurations_are_named() -> None:
    with pytest.raises(DataFault, match="needs SASRec item vectors"):
        Letter.tokenise(SIDS, data(), seed=0, device="cpu", progress=Progress())
    with pytest.raises(TypeError, match="LetterConfig"):
        Letter.fit(Tiger.presets[Scale.SMOKE], data=data(), sids=sids(), seed=0, device="cpu", progress=Progress())


def test_tokens_are_fitted_on_known_items_alone(made: TrainingData) -> None:
    vectors = made.collaborative
    assert vectors is not None
    table = Letter.tokenise(SIDS, made, seed=0, device="cpu", progress=Progress())
    assert table.frozen
    assert table.levels == 5
    assert len(np.unique(table.codes, axis=0)) == len(made.items)
    spoiled = np.where(made.known[:, None], vectors, 1e3).astype(np.float32)
    again = Letter.tokenise(SIDS, replace(made, collaborative=spoiled), seed=0, device="cpu", progress=Progress())
    assert again.digest == table.digest
    moved = Letter.tokenise(SIDS, replace(made, collaborative=-vectors), seed=0, device="cpu", progress=Progress())
    assert moved.digest != table.digest


@pytest.mark.slow
def test_the_recommender_learns_and_keeps_its_table(made: TrainingData, tmp_path: Path) -> None:
    table = Letter.tokenise(SIDS, made, seed=0, device="cpu", progress=Progress())
    recommender = Letter.fit(CONFIG, data=made, sids=table, seed=0, device="cpu", progress=Progress())
    assert recommender.sids is table
    assert recommender.capabilities == Letter.capabilities(CONFIG, SIDS)
    test = examples(sequences(40, 9, 3))

    def hits(ranker: object) -> float:
        ranking = ranker.recommend(test.histories(4), 5, beam=10)  # type: ignore[attr-defined]
        return float((ranking.ranks(test.targets) > 0).mean())

    assert hits(recommender) > 3 * hits(Popularity.fit(made.train, len(made.items)))
    recommender.save(tmp_path / "model")
    again = Letter.load(tmp_path / "model")
    assert again.sids.digest == table.digest
    assert hits(again) == hits(recommender)


def test_the_ranking_temperature_reaches_the_loss(made: TrainingData) -> None:
    table = sids()
    losses = []
    for temperature in (1.0, 0.5):
        progress = Progress()
        training = CONFIG.training.model_copy(update={"temperature": temperature, "epochs": 1, "max_steps": 1})
        config = CONFIG.model_copy(update={"training": training})
        Letter.fit(config, data=made, sids=table, seed=0, device="cpu", progress=progress)
        losses.append(next(step.losses["loss"] for step in progress.steps if "loss" in step.losses))
    assert losses[0] != losses[1]
