"""The shipped tasks on the real files, where they are at hand: what they come to is pinned under version 1."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import DataFault, DataMissing
from genrec_unlearn_bench.progress import Progress
from tests.data.worlds import outcome_digest

pytestmark = pytest.mark.skipif("GENREC_UNLEARN_BENCH_DATA" not in os.environ, reason="no real data at hand")

# Task -> digest of what was drawn. `industrial` is the incomplete train file that its SOURCE describes.
PINNED = {
    "industrial-brand": "a006358c9e0327c0",
    "industrial-entangled": "ea50e30680be16e4",
    "industrial-item": "597bf41b008c5733",
    "industrial-interaction": "7509f2c2dfd6f5b9",
    "steam-brand": "9703801cef266b51",
    "steam-entangled": "a284aff58236f06b",
    "steam-price": "3ea440f6412f53b7",
    "steam-item": "31712a44533b3968",
    "steam-interaction": "0618ee074648d6bc",
    "steam-publisher": "d71b3f5aaa22631b",
    "steam-tag": "6cdfcfa5e893540f",
    "toys-2014-category": "9ce7b3d0fdc16142",
    "toys-2014-brand": "27747a6c85c8fd29",
    "toys-2014-entangled": "aa323f68ddae610f",
    "toys-2014-item": "bc4b5d0ec417b94a",
    "toys-2014-interaction": "3c80c774db3a909a",
    "sports-2014-brand": "cb7a83ca98d27a81",
    "sports-2014-entangled": "918739ffb71ef1f9",
    "sports-2014-item": "7c44acf063dcae6c",
    "sports-2014-interaction": "a462483520b55e6a",
}


# Task -> values and items drawn, and their share of the train targets.
ATTRIBUTES = {
    "steam-publisher": (17, 172, 0.0988),
    "steam-tag": (5, 195, 0.0928),
    "toys-2014-category": (26, 1418, 0.1077),
}


@cache
def prepared(name: str) -> Dataset:
    try:
        return prepare(find_dataset(name), Path(os.environ["GENREC_UNLEARN_BENCH_DATA"]), Progress())
    except DataMissing:
        pytest.skip(f"{name} is not there")


@pytest.mark.parametrize("name", sorted(PINNED))
def test_shipped_tasks_come_to_what_they_came_to_before(name: str) -> None:
    task = find_task(name)
    manifest = resolve(task, prepared(task.dataset)).manifest
    assert manifest.within_tolerance
    if task.concept.kind in ("brand", "item", "attribute"):
        assert abs(manifest.train_share - 0.10) <= 0.01 + 1e-12
    assert manifest.counts["test_forget"] >= 100
    assert outcome_digest(manifest) == PINNED[name]
    if name in ATTRIBUTES:
        drawn = (len(manifest.concepts), len(manifest.forget_items), round(manifest.train_share, 4))
        assert drawn == ATTRIBUTES[name]


@pytest.mark.parametrize("name", ["industrial", "toys-2014", "sports-2014"])
def test_amazon_files_without_prices_have_no_price_task(name: str) -> None:
    with pytest.raises(DataFault, match="have a number as price"):
        resolve(find_task(f"{name}-price"), prepared(name))
