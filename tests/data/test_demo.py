from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.formats.reader import read
from genrec_unlearn_bench.data.locate import locate
from genrec_unlearn_bench.data.splits import Interactions, RawData, global_time
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.progress import Progress
from tests.data.demo_world import BRANDS, CATEGORIES, generate
from tests.data.worlds import assembled, outcome_digest

CONTENT = "37a0caf25c8c572802e3b9c348262d5f"
"""Digest of what seed 0 gives."""
PINNED_TASKS = {
    "brand": "277d2d84878b95b6",
    "price": "2b94b87728c61a68",
    "item": "9a4588533aa028b0",
    "interaction": "d603b5ff61504133",
}


def digest(raw: RawData) -> str:
    items, log = raw.items, raw.log
    assert isinstance(log, Interactions)
    assert log.times is not None
    prices = [None if np.isnan(price) else price for price in items.prices.tolist()]
    columns = (items.ids, items.titles, items.descriptions, items.brands, items.brands_raw, prices, items.categories)
    state = hashlib.blake2b(json.dumps(columns).encode(), digest_size=16)
    for column in (log.users, log.items, log.times):
        state.update(column.astype("<i8").tobytes())
    return state.hexdigest()


@pytest.fixture(scope="module")
def raw() -> RawData:
    return generate()


@pytest.fixture(scope="module")
def demo(raw: RawData) -> Dataset:
    assert isinstance(raw.log, Interactions)
    assert raw.log.times is not None
    return assembled(raw.items, global_time(raw.log.users, raw.log.items, raw.log.times), "demo")


@pytest.fixture(scope="module")
def task(demo: Dataset) -> ForgetSplit:
    return resolve(find_task("demo-brand"), demo)


class Markov:
    """The next department from the last one; in it, items by popularity, brands of the history and last shelf."""

    def __init__(self, items: Dataset, train: Examples) -> None:
        table = items.items
        self.brand = np.unique(table.brands, return_inverse=True)[1]
        self.shop = np.unique([path[0] for path in table.categories], return_inverse=True)[1]
        self.shelf = np.unique([path[1] for path in table.categories], return_inverse=True)[1]
        self.popularity = np.bincount(train.targets, minlength=len(table)) + 1e-3
        last = train.events[train.ends - 1]
        moves = np.full((self.shop.max() + 1,) * 2, 0.5)
        np.add.at(moves, (self.shop[last], self.shop[train.targets]), 1.0)
        self.moves = moves / moves.sum(axis=1, keepdims=True)

    def top(self, history: NDArray[np.int64], k: int = 10) -> NDArray[np.int64]:
        last = history[-1]
        within = self.popularity / np.bincount(self.shop, weights=self.popularity)[self.shop]
        scores = self.moves[self.shop[last], self.shop] * within
        scores = scores * np.where(self.brand == self.brand[last], 20.0, 1.0)
        scores = scores * np.where(self.shelf == self.shelf[last], 4.0, 1.0)
        scores[history] = 0.0
        return np.argsort(-scores, kind="stable")[:k]

    def hits(self, part: Examples) -> float:
        found = [
            target in self.top(part.events[start:end])
            for target, start, end in zip(part.targets, part.starts, part.ends, strict=True)
        ]
        return float(np.mean(found))


def popularity_hits(train: Examples, part: Examples, count: int) -> float:
    top = np.argsort(-np.bincount(train.targets, minlength=count), kind="stable")[:10]
    return float(np.isin(part.targets, top).mean())


def test_the_data_are_pinned(raw: RawData) -> None:
    # Every shipped demo number depends on these bytes; a new digest means a new version of the demo tasks.
    assert digest(raw) == CONTENT
    found = read(locate(find_dataset("demo"), None, Progress()).parts, find_dataset("demo"), Progress())
    assert isinstance(found.log, Interactions)
    assert found.log.times is not None
    assert isinstance(raw.log, Interactions)
    # The reader numbers users by first appearance, as the preparation does with any log.
    assert np.array_equal(found.log.users, pd.factorize(raw.log.users)[0])
    assert digest(replace(found, log=replace(found.log, users=raw.log.users))) == CONTENT
    assert (found.dropped, found.notes) == (raw.dropped, raw.notes)
    assert digest(generate(1)) != CONTENT


def test_size_and_shape(raw: RawData, demo: Dataset) -> None:
    log = raw.log
    assert isinstance(log, Interactions)
    assert len(raw.items) == 400
    lengths = np.bincount(log.users)
    assert len(lengths) == 1500
    assert (lengths.min(), lengths.max()) == (6, 12)
    assert len(np.unique(log.users * 400 + log.items)) == len(log), "nobody buys an item twice"
    assert (np.diff(log.times) >= 0).all()
    for user in (0, 700, 1499):
        assert (np.diff(log.times[log.users == user]) >= 60).all(), "a user's interactions never coincide"
    assert 8000 <= len(demo.train) <= 10_000
    assert min(len(demo.valid), len(demo.test)) > 1000
    assert len(np.unique(demo.train.targets)) > 395


def test_the_catalogue_reads_like_one(raw: RawData) -> None:
    items = raw.items
    sizes = Counter(brand for brand in items.brands if brand)
    assert set(sizes) <= set(BRANDS)
    assert len(sizes) == 40
    assert max(sizes.values()) >= 2.5 * min(sizes.values()), "brand sizes are skewed"
    assert {path[0] for path in items.categories} == {category.name for category in CATEGORIES}
    assert all(len(path) == 2 for path in items.categories)
    named = [row for row, brand in enumerate(items.brands) if brand]
    in_title = np.mean([items.brands[row] in items.titles[row] for row in named])
    in_description = np.mean([items.brands[row] in items.descriptions[row] for row in named])
    assert 0.75 < in_title < 0.95
    assert 0.35 < in_description < 0.65
    assert 4 <= len(items) - len(named) <= 20, "a few items have no brand"
    assert any(raw_name != name for raw_name, name in zip(items.brands_raw, items.brands, strict=True))
    assert len(set(items.titles)) > 380
    assert raw.notes[0].startswith("synthetic")


def test_prices_follow_department_and_brand_but_overlap(raw: RawData) -> None:
    items = raw.items
    priced = np.isfinite(items.prices)
    junk = sum(raw.dropped.values())
    assert junk == 4
    assert 10 <= (~priced).sum() - junk <= 20, "a few items have no price"
    assert (items.prices[priced] > 0).all()
    assert np.allclose(np.round(items.prices[priced] % 1, 2), 0.99)
    top = np.nanquantile(items.prices, 0.8)
    for category in CATEGORIES:
        rows = [row for row, path in enumerate(items.categories) if path[0] == category.name and priced[row]]
        assert (items.prices[rows] < top).any()
        assert (items.prices[rows] > np.nanquantile(items.prices, 0.5)).any()


def test_sequences_tell_far_more_than_popularity(demo: Dataset) -> None:
    popular = popularity_hits(demo.train, demo.test, 400)
    markov = Markov(demo, demo.train).hits(demo.test)
    assert markov > 3 * popular
    assert markov > 0.2
    assert popular > 10 / 400, "popularity tells something as well"


def test_forgetting_a_brand_is_a_real_problem(demo: Dataset, task: ForgetSplit) -> None:
    assert task.manifest.within_tolerance
    assert abs(task.manifest.train_share - 0.10) <= 0.01
    assert len(task.test.forget) >= 100
    original = Markov(demo, demo.train).hits(task.test.forget)
    oracle = Markov(demo, task.cleaned(task.train.retain)).hits(task.test.forget)
    assert original > 0.2, "the model that saw the concept finds it"
    assert oracle < 0.1 * original, "the model that never saw it as a target does not"
    popular = popularity_hits(demo.train, task.test.forget, 400)
    assert original > 2 * popular, "the concept is not just what everybody buys"
    retain = Markov(demo, demo.train).hits(task.test.retain)
    assert 0.5 < original / retain < 2, "forget users are as predictable as others"


@pytest.mark.parametrize("kind", ["brand", "price", "item", "interaction"])
def test_all_four_tasks_resolve_with_enough_to_measure(demo: Dataset, kind: str) -> None:
    manifest = resolve(find_task(f"demo-{kind}"), demo).manifest
    assert manifest.within_tolerance
    assert manifest.counts["test_forget"] >= 100
    assert manifest.counts["valid_forget"] >= 40
    assert manifest.counts["test_retain"] >= 800
    assert 0.05 < manifest.retain_history_share < 0.6


@pytest.mark.parametrize(("kind", "pinned"), sorted(PINNED_TASKS.items()))
def test_what_the_tasks_come_to_is_pinned(demo: Dataset, kind: str, pinned: str) -> None:
    # Resolved tasks never change under one version: raise it in the YAML instead of pinning anew.
    manifest = resolve(find_task(f"demo-{kind}"), demo).manifest
    assert manifest.version == 1
    assert outcome_digest(manifest) == pinned


def test_many_draws_reach_ten_per_cent(demo: Dataset) -> None:
    for seed in range(20):
        spec = find_task("demo-brand").model_copy(update={"seed": seed})
        manifest = resolve(spec, demo).manifest
        assert manifest.within_tolerance
        assert manifest.draws < 1000
