"""Stored datasets come back exactly."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.dataset import Dataset, content_digest, load_dataset, save_dataset
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.splits import SplitParts
from genrec_unlearn_bench.progress import Progress
from tests.data.shops import shop_spec, write_shop


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return prepare(shop_spec(), write_shop(tmp_path / "shop"), Progress())


def check_same(left: Dataset, right: Dataset) -> None:
    assert left.manifest == right.manifest
    assert left.name == right.name
    for field in fields(left.items):
        a, b = getattr(left.items, field.name), getattr(right.items, field.name)
        assert np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) else a == b
    for part in ("train", "valid", "test"):
        for field in fields(left.train):
            a, b = getattr(getattr(left, part), field.name), getattr(getattr(right, part), field.name)
            assert a.dtype == b.dtype == np.int64
            assert np.array_equal(a, b)


def test_round_trip(dataset: Dataset, tmp_path: Path) -> None:
    save_dataset(dataset, tmp_path)
    loaded = load_dataset(tmp_path)
    check_same(dataset, loaded)
    assert loaded.train.events is loaded.test.events


def test_parts_with_events_of_their_own(dataset: Dataset, tmp_path: Path) -> None:
    test = replace(dataset.test, events=dataset.test.events.copy())
    own = replace(dataset, test=test)
    save_dataset(own, tmp_path)
    check_same(own, load_dataset(tmp_path))


def test_odd_text_survives(dataset: Dataset, tmp_path: Path) -> None:
    titles = ("line\nbreak\u2028\x85\r", '"quo\\ted"', "日本 🎈", *dataset.items.titles[3:])
    items = replace(dataset.items, titles=titles, prices=np.full(len(titles), 0.1 + 0.2))
    digest = content_digest(items, SplitParts(dataset.train, dataset.valid, dataset.test), dataset.manifest.split)
    odd = replace(dataset, items=items, manifest=dataset.manifest.model_copy(update={"digest": digest}))
    save_dataset(odd, tmp_path)
    check_same(odd, load_dataset(tmp_path))


def test_same_bytes(dataset: Dataset, tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        save_dataset(dataset, tmp_path / name)
        contents.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert contents[0] == contents[1]
