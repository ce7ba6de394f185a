from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.features.item_features import load_embeddings, save_embeddings
from genrec_unlearn_bench.tensors import write_tensors

ROWS = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)


def test_features_survive_storage_to_the_bit(tmp_path: Path) -> None:
    save_embeddings(ROWS, tmp_path)
    rows = load_embeddings(tmp_path)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, ROWS)


def test_whatever_is_missing_or_broken_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(CorruptArtefact, match="cannot be read"):
        load_embeddings(tmp_path)
    save_embeddings(ROWS, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptArtefact, match="cannot be read"):
        load_embeddings(tmp_path)
    with path.open("wb") as sink:
        write_tensors({"rows": np.zeros(3)}, sink)
    with pytest.raises(CorruptArtefact, match="no matrix"):
        load_embeddings(tmp_path)
