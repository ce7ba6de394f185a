"""From a record to its lists: what is found is what was decoded, and what is not there is said with its command."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.errors import BenchError, DataMissing, UsageError
from genrec_unlearn_bench.evaluation.lists import LISTS
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.list_lookup import find_dataset_of, find_lists
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import read_record
from genrec_unlearn_bench.store.store import StageStore
from tests.pipeline.listed_world import ITEMS, World, make_world, walking

COMMAND = "bench run --task world-brand --method original --set lr=1 --seed 0"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def record(world: World) -> RunRecord:
    return read_record(world.add("original", walking))


def folder(world: World, record: RunRecord, name: str) -> Path:
    return world.store.folder(name, next(stage.key for stage in record.stages if stage.name == name))


def test_lists_are_those_that_were_decoded(world: World, record: RunRecord) -> None:
    found = find_lists(record, world.store)
    for group, part in ((Group.FORGET, world.split.test.forget), (Group.RETAIN, world.split.test.retain)):
        assert found.users(group).tolist() == part.users.tolist()
        assert found.targets(group).tolist() == part.targets.tolist()
        for beam in (10, 50):
            expected = walking(part.histories(5), max(10, beam), beam)
            assert np.array_equal(found.rankings[group, beam].items, expected.items)
            assert np.array_equal(found.rankings[group, beam].log_probs, expected.log_probs)
    assert find_dataset_of(record, world.store).items.titles == world.dataset.items.titles
    assert found.rankings[Group.RETAIN, 50].items.max() == ITEMS - 1


def elsewhere(world: World, record: RunRecord) -> tuple[RunRecord, StageStore]:
    return record, StageStore(world.root / "other")


def damaged(world: World, record: RunRecord) -> tuple[RunRecord, StageStore]:
    path = folder(world, record, "evaluation") / LISTS
    path.write_bytes(path.read_bytes()[:-9])
    return record, world.store


def without_values(world: World, record: RunRecord) -> tuple[RunRecord, StageStore]:
    return record.model_copy(update={"per_user_digest": ""}), world.store


@pytest.mark.parametrize(
    ("harm", "kind", "said"),
    [
        (elsewhere, DataMissing, f"the cache has no ranked lists of this run.*--cache-dir.*{COMMAND}"),
        (damaged, DataMissing, f"no ranked lists.*{COMMAND}"),
        (without_values, UsageError, "weights are not finite"),
    ],
)
def test_what_is_not_there_is_said(
    world: World,
    record: RunRecord,
    harm: Callable[[World, RunRecord], tuple[RunRecord, StageStore]],
    kind: type[BenchError],
    said: str,
) -> None:
    harmed, store = harm(world, record)
    with pytest.raises(kind, match=f"(?s){said}"):
        find_lists(harmed, store)


def test_a_dataset_that_is_gone_is_said(world: World, record: RunRecord) -> None:
    shutil.rmtree(folder(world, record, "dataset"))
    with pytest.raises(DataMissing, match=f"(?s)no dataset of this run.*{COMMAND}"):
        find_dataset_of(record, world.store)
