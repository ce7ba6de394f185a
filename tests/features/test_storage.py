from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.features.storage import load_features, save_features


@pytest.fixture
def features() -> ItemFeatures:
    generator = np.random.default_rng(0)
    plain, scrubbed = (generator.normal(size=(7, width)).astype(np.float32) for width in (4, 3))
    return ItemFeatures(plain, scrubbed, "tfidf:4")


def test_features_survive_storage_to_the_bit(features: ItemFeatures, tmp_path: Path) -> None:
    save_features(features, tmp_path / "deep" / "folder")
    found = load_features(tmp_path / "deep" / "folder")
    assert np.array_equal(found.plain, features.plain)
    assert np.array_equal(found.scrubbed, features.scrubbed)
    assert (found.encoder, found.digest) == (features.encoder, features.digest)
    assert sorted(path.name for path in (tmp_path / "deep" / "folder").iterdir()) == [
        "features.json",
        "features.safetensors",
    ]
    assert json.loads((tmp_path / "deep" / "folder" / "features.json").read_text())["items"] == 7


def test_whatever_is_missing_or_broken_is_corrupt(features: ItemFeatures, tmp_path: Path) -> None:
    with pytest.raises(CorruptArtefact):
        load_features(tmp_path)
    for name, content in (
        ("features.safetensors", b"cut off"),
        ("features.safetensors", None),
        ("features.json", b"{}"),
        ("features.json", None),
    ):
        save_features(features, tmp_path)
        if content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(CorruptArtefact, match="features"):
            load_features(tmp_path)


def test_files_of_two_saves_do_not_go_together(features: ItemFeatures, tmp_path: Path) -> None:
    save_features(features, tmp_path)
    record = (tmp_path / "features.json").read_bytes()
    save_features(ItemFeatures(-features.plain, features.scrubbed, "tfidf:4"), tmp_path)
    (tmp_path / "features.json").write_bytes(record)
    with pytest.raises(CorruptArtefact, match="digest"):
        load_features(tmp_path)


def test_a_refusing_file_system_is_an_error_for_people(features: ItemFeatures, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        save_features(features, tmp_path / "file")
