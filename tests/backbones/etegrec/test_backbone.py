from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from genrec_unlearn_bench.backbones import load_backbone
from genrec_unlearn_bench.backbones.config import Scale, T5Shape
from genrec_unlearn_bench.backbones.etegrec.backbone import Etegrec, EtegrecConfig, EtegrecSidConfig, JointConfig
from genrec_unlearn_bench.backbones.etegrec.recommender import EtegrecRecommender
from genrec_unlearn_bench.backbones.sasrec import Popularity
from genrec_unlearn_bench.sids.table import SidTable
from tests.backbones.etegrec.world import CONFIG, ITEMS, SIDS, data, fitted, fresh, live
from tests.planted import sids


def test_capabilities_are_those_of_the_recommender() -> None:
    assert load_backbone("etegrec") is Etegrec
    assert Etegrec.capabilities(CONFIG, SIDS) == fresh(sids()).capabilities


def test_sasrec_is_asked_for_where_its_vectors_are_read() -> None:
    assert Etegrec.collaborative(CONFIG, SIDS) == SIDS.sasrec
    assert Etegrec.collaborative(CONFIG, SIDS.model_copy(update={"item_features": "text"})) is None


def test_official_settings_are_those_of_the_code() -> None:
    config, sid = Etegrec.presets[Scale.OFFICIAL], Etegrec.sid_presets[Scale.OFFICIAL]
    shape = config.shape
    assert (shape.layers, shape.d_model, shape.heads, shape.d_kv, shape.d_ff) == (6, 128, 4, 64, 512)
    assert (sid.levels, sid.codes, sid.dim, sid.hidden, sid.ordinals) == (3, 256, 128, (512, 256), 256)
    assert sid.sasrec.dim == 256
    assert (config.joint.epochs, config.joint.cycle, config.joint.warm_epoch) == (400, 2, 10)
    assert (config.alignment.sia, config.alignment.psa, config.alignment.temperature) == (1e-4, 3e-4, 0.07)
    assert Etegrec.sid_presets[Scale.PAPER].dim == 64


def test_the_official_network_has_the_official_size() -> None:
    """3.94 million parameters and four tables of 256 x 128, behind three special rows."""
    table = SidTable(np.zeros((1, 4), dtype=np.int64), (256,) * 4, 3)
    network = EtegrecRecommender.fresh(Etegrec.presets[Scale.OFFICIAL].shape, table, seed=0).model
    embeddings = network.shared.weight.numel()
    assert embeddings == (4 * 256 + 3) * 128
    assert sum(weight.numel() for weight in network.parameters()) - embeddings == 3_936_512


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: EtegrecSidConfig.model_validate({"quantiser": "rkmeans"}), "rqvae"),
        (lambda: EtegrecSidConfig.model_validate({"collision_token": False}), "True"),
        (lambda: JointConfig(epochs=5), "no multiple of cycle"),
        (lambda: EtegrecConfig(shape=T5Shape(user_tokens=10)), "no user tokens"),
    ],
)
def test_settings_that_make_no_sense_are_refused(build: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        build()  # type: ignore[operator]


@pytest.mark.slow
def test_what_was_trained_beats_popularity() -> None:
    """A planted circle: the next item is all but certain."""
    world = data()
    longer = CONFIG.model_copy(
        update={
            "joint": CONFIG.joint.model_copy(update={"epochs": 12, "lr_tokenizer": 1e-4}),
            "second": CONFIG.second.model_copy(update={"epochs": 12}),
        }
    )
    histories = world.valid.histories(4)
    ours = fitted(live(), longer).recommend(histories, 10).ranks(world.valid.targets)
    floor = Popularity.fit(world.train, ITEMS).recommend(histories, 10).ranks(world.valid.targets)
    assert np.mean(ours == 1) > 0.5 > 0.1 > np.mean(floor == 1)
