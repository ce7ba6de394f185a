from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.etegrec.backbone import Etegrec
from genrec_unlearn_bench.backbones.etegrec.tokenizer import LiveTokenizer, item_vectors, tokenizer_pass
from genrec_unlearn_bench.errors import BenchError, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable, load_table, save_table
from tests.backbones.etegrec.world import ITEMS, SIDS, data, live


@pytest.fixture(scope="module")
def table() -> SidTable:
    return live()


def test_the_tokenizer_survives_the_disk_with_its_codes(table: SidTable, tmp_path: Path) -> None:
    save_table(table, tmp_path)
    again = LiveTokenizer.of(load_table(tmp_path))
    assert not table.frozen
    assert again.model.config.hidden == SIDS.hidden
    assert again.model.config.beta == pytest.approx(SIDS.beta)
    assert again.table().digest == table.digest
    assert again.table().frozen


def test_codes_are_nearest_codewords_and_the_last_one_counts_the_collisions(table: SidTable) -> None:
    for level, distances in enumerate(table.distances(np.arange(ITEMS))):
        np.testing.assert_array_equal(distances.argmin(1), table.codes[:, level])
    seen: dict[tuple[int, ...], int] = {}
    for row in table.codes:
        prefix = tuple(int(code) for code in row[:3])
        assert row[3] == seen.get(prefix, 0)
        seen[prefix] = seen.get(prefix, 0) + 1
    assert table.level_sizes == (16, 16, 16, SIDS.ordinals)


def test_equal_items_are_numbered_in_order_until_the_ordinals_end(table: SidTable) -> None:
    tokenizer = LiveTokenizer.of(table)
    same = tokenizer.vectors.clone()
    same[[40, 3, 20]] = same[7].clone()
    codes = replace(tokenizer, vectors=same).table().codes
    assert len(np.unique(codes[[3, 7, 20, 40], :3], axis=0)) == 1
    assert (np.diff(codes[[3, 7, 20, 40], 3]) > 0).all()
    assert len(np.unique(codes, axis=0)) == ITEMS
    with pytest.raises(BenchError, match="collapsed: 64 items share their codes, and there are 8 ordinals"):
        replace(tokenizer, vectors=same[:1].expand(ITEMS, -1)).table()


def test_a_diverged_tokenizer_is_named(table: SidTable) -> None:
    tokenizer = LiveTokenizer.of(table)
    with torch.no_grad():
        next(tokenizer.model.parameters()).fill_(torch.nan)
    with pytest.raises(BenchError, match="diverged"):
        tokenizer.table()


def test_the_pass_has_the_loss_of_the_tokenizer_and_a_reconstruction_in_the_vectors_units(table: SidTable) -> None:
    tokenizer = LiveTokenizer.of(table)
    model, vectors = tokenizer.model, tokenizer.vectors
    given = tokenizer_pass(model, vectors)
    expected, quantised = model(model.standardise(vectors))
    torch.testing.assert_close(given.loss.total, expected.total)
    assert torch.equal(given.quantised.codes, quantised.codes)
    error = ((given.reconstruction - vectors) / model.scale).square().mean()
    torch.testing.assert_close(error, expected.reconstruction, rtol=1e-4, atol=1e-6)
    assert error < 0.5  # it has learnt something: the mean alone gives 1


def test_item_vectors_are_what_the_option_says() -> None:
    world = data()
    assert world.collaborative is not None
    np.testing.assert_array_equal(item_vectors(SIDS, world), world.collaborative)
    text = SIDS.model_copy(update={"item_features": "text"})
    np.testing.assert_array_equal(item_vectors(text, replace(world, collaborative=None)), world.features)


def test_missing_or_broken_vectors_are_named() -> None:
    world = data()
    with pytest.raises(DataFault, match="needs SASRec item vectors"):
        item_vectors(SIDS, replace(world, collaborative=None))
    assert world.collaborative is not None
    broken = world.collaborative.copy()
    broken[5] = np.nan
    with pytest.raises(DataFault, match="item row 5"):
        Etegrec.tokenise(SIDS, replace(world, collaborative=broken), seed=0, device="cpu", progress=Progress())
