from __future__ import annotations

from pathlib import Path

import numpy as np

from genrec_unlearn_bench.features.item_features import load_embeddings, save_embeddings

ROWS = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)


def test_features_survive_storage_to_the_bit(tmp_path: Path) -> None:
    save_embeddings(ROWS, tmp_path)
    rows = load_embeddings(tmp_path)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, ROWS)
