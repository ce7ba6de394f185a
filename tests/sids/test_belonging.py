"""A table of one catalogue does not pass for that of another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.t5 import T5Recommender, T5Shape
from genrec_unlearn_bench.backbones.tiger import Tiger, TigerConfig
from genrec_unlearn_bench.errors import CorruptArtefact, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.storage import save_table
from genrec_unlearn_bench.sids.table import SidTable, check_items, check_successor
from tests.planted import catalogue, examples, sequences, sids

SHAPE = T5Shape(d_model=16, d_kv=4, d_ff=24, layers=1, heads=2, history_limit=4)


def shorter() -> SidTable:
    table = sids()
    return replace(table, codes=table.codes[:-1], latents=None, codebooks=None)


def deeper() -> SidTable:
    table = sids()
    codes = np.concatenate([table.codes, table.codes[:, :1]], axis=1)
    return SidTable(codes, (*table.level_sizes, table.level_sizes[0]), 5)


def test_the_same_catalogue_passes() -> None:
    table = sids()
    check_items(table, 64)
    check_successor(table, table.reassigned(np.array([3]), table.codes[[4]]))


@pytest.mark.parametrize("other", [shorter(), deeper(), replace(sids(), level_sizes=(17, 16, 16, 4))])
def test_another_catalogue_is_refused_wherever_it_comes_in(other: SidTable) -> None:
    with pytest.raises(DataFault, match="another catalogue"):
        check_successor(sids(), other)
    with pytest.raises(DataFault, match="another catalogue"):
        T5Recommender.fresh(SHAPE, sids(), seed=0).with_sids(other)


def test_fitting_on_the_ids_of_another_catalogue() -> None:
    data = TrainingData(
        train=examples(sequences(5, 5, 1)),
        valid=examples(sequences(5, 5, 2)),
        items=catalogue(),
        features=np.zeros((64, 2), dtype=np.float32),
        known=np.ones(64, dtype=np.bool_),
    )
    with pytest.raises(DataFault, match="63 of them for 64 items"):
        Tiger.fit(TigerConfig(shape=SHAPE), data=data, sids=shorter(), seed=0, device="cpu", progress=Progress())


def test_a_saved_recommender_with_another_table(tmp_path: Path) -> None:
    T5Recommender.fresh(SHAPE, sids(), seed=0).save(tmp_path)
    save_table(deeper(), tmp_path / "sids")
    with pytest.raises(CorruptArtefact, match="do not belong to the semantic IDs"):
        T5Recommender.load(tmp_path)
