"""Time and memory of the parts that meet every item or interaction grow no faster than their number.

Two sizes, one twice the other, in processor time. What is wanted is a straight line; the bound leaves room for caches
and for a busy machine, none for anything quadratic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import load_dataset, save_dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.holdout import carve
from genrec_unlearn_bench.data.prepare import import_folder
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.data.tasks import DEFAULT_CONCEPTS, TaskSpec
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.quantise import with_ordinals
from genrec_unlearn_bench.sids.table import SidTable, ordinals
from tests.decoding.sessions import sids_of
from tests.scale.meter import Meter, can_reset
from tests.scale.world import World, write_world

RATIO = 2.6
"""Largest ratio of processor time for twice the size."""
SIZES = (20_000, 40_000)


def ratio(work: Callable[[int], object], *, rounds: int = 3) -> float:
    """Processor time at the larger size over that at the smaller one, best of several taken in turns."""
    best = {size: float("inf") for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            start = time.process_time()
            work(size)
            best[size] = min(best[size], time.process_time() - start)
    return best[SIZES[1]] / best[SIZES[0]]


def codes(items: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (items, 3)).astype(np.int64) % np.array([256, 16, 4])


def test_ordinals_and_trie_are_linear() -> None:
    tables = {size: codes(size) for size in SIZES}

    def work(size: int) -> None:
        table = with_ordinals(SidTable(tables[size], (256, 16, 4), 3), 4)
        Trie.build(table.codes, table.level_sizes)

    assert ratio(work) < RATIO


def test_every_item_of_a_large_table_has_a_leaf_of_its_own() -> None:
    table = with_ordinals(SidTable(codes(SIZES[1]), (256, 16, 4), 3), 4)
    trie = Trie.build(table.codes, table.level_sizes)
    assert trie.leaves == SIZES[1]
    assert np.array_equal(sids_of(trie, np.arange(trie.leaves)), table.codes[trie.items])
    assert sum(array.nbytes for array in (*trie.codes, *trie.first_child, trie.first_item)) < 64 * SIZES[1]
    assert int(ordinals(table.codes).max()) == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_reset(), reason="the system does not forget earlier peaks of memory")
def test_health_holds_no_distances_of_all_items_at_once() -> None:
    generator = np.random.default_rng(0)
    items, size = 150_000, 256
    table = SidTable(
        generator.integers(0, size, (items, 1)).astype(np.int64),
        (size,),
        1,
        codebooks=(generator.random((size, 4), dtype=np.float32),),
        latents=generator.random((items, 4), dtype=np.float32),
    )
    meter = Meter(loud=False)
    with meter.stage("health"):
        report = health(table)
    whole = items * size * 4 / 2**20
    assert meter.stages[0].rise < 3.5 * whole, "the distances of all items in float64 and float32 are three times this"
    assert report.items == items


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    out = {}
    for size in (5_000, 10_000):
        out[size] = tmp_path_factory.mktemp("world") / str(size)
        write_world(World(size, size, per_user=6.0), out[size])
    return out


@pytest.mark.slow
@pytest.mark.skipif(not can_reset(), reason="the system does not forget earlier peaks of memory")
def test_from_files_to_a_scrubbed_catalogue_in_little_memory(worlds: dict[int, Path], tmp_path: Path) -> None:
    spent: dict[int, dict[str, tuple[float, float]]] = {}
    for size, folder in worlds.items():
        meter = Meter(loud=False)
        store = tmp_path / str(size)
        store.mkdir()
        with meter.stage("import"):
            _, dataset = import_folder(folder, f"shop-{size}", Progress())
        with meter.stage("save and load"):
            save_dataset(dataset, store)
            dataset = load_dataset(store)
        assert dataset.manifest.items == size
        with meter.stage("task and holdout"):
            split = resolve(TaskSpec(name="large-brand", dataset="shop", concept=DEFAULT_CONCEPTS["brand"]), dataset)
            carve(dataset, split)
        with meter.stage("scrub"):
            scrubbed_items(dataset.items, split)
        spent[size] = {stage.stage: (stage.cpu, stage.rise) for stage in meter.stages}
    small, large = spent.values()
    for stage, (cpu, rise) in large.items():
        # The smaller one ran first and paid for imports, so it is the larger one that may be the cheaper.
        assert cpu < max(RATIO * small[stage][0], 0.25), stage
        assert rise * 2**20 < 12_000 * 10_000, f"{stage}: {rise:.0f} MiB for 10,000 items and 60,000 interactions"


def test_thinned_parts_of_one_log_share_its_events(worlds: dict[int, Path]) -> None:
    _, dataset = import_folder(worlds[5_000], "shop-5000", Progress())
    split = resolve(TaskSpec(name="large-brand", dataset="shop", concept=DEFAULT_CONCEPTS["brand"]), dataset)
    lean, divided, _ = carve(dataset, split)
    parts: list[Examples] = [lean.train, lean.valid, divided.train.forget, divided.train.retain, divided.valid.retain]
    assert len({id(part.events) for part in parts}) == 1
    assert len({id(part.events) for part in (dataset.train, dataset.valid, dataset.test)}) == 1
