from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.features.storage import load_embeddings, load_features, save_embeddings, save_features
from genrec_unlearn_bench.tensors import write_tensors


@pytest.fixture
def features() -> ItemFeatures:
    generator = np.random.default_rng(0)
    plain, scrubbed = (generator.normal(size=(7, width)).astype(np.float32) for width in (4, 3))
    return ItemFeatures(plain, scrubbed, "tfidf:4")


def test_features_survive_storage_to_the_bit(features: ItemFeatures, tmp_path: Path) -> None:
    save_embeddings(features.plain, tmp_path)
    rows = load_embeddings(tmp_path)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, features.plain)
    save_features(features, tmp_path / "both")
    found = load_features(tmp_path / "both")
    assert np.array_equal(found.scrubbed, features.scrubbed)
    assert (found.encoder, found.digest) == (features.encoder, features.digest)


def test_whatever_is_missing_or_broken_is_corrupt(features: ItemFeatures, tmp_path: Path) -> None:
    with pytest.raises(CorruptArtefact, match="cannot be read"):
        load_embeddings(tmp_path)
    save_embeddings(features.plain, tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptArtefact, match="cannot be read"):
        load_embeddings(tmp_path)
    with path.open("wb") as sink:
        write_tensors({"rows": np.zeros(3)}, sink)
    with pytest.raises(CorruptArtefact, match="no matrix"):
        load_embeddings(tmp_path)
