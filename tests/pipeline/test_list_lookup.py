"""From a record to its lists: what is found is what was decoded, and what is not there is said with its command."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact, DataMissing, UsageError
from genrec_unlearn_bench.evaluation.lists import LISTS
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.list_lookup import find_dataset_of, find_lists
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import read_record
from genrec_unlearn_bench.store.store import StageStore
from tests.evaluation.planted import lists
from tests.pipeline.listed_world import ITEMS, World, make_world, stage_of, walking

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


def without_lists(world: World, record: RunRecord) -> tuple[RunRecord, StageStore]:
    """As a stage of an earlier version of the suite: whole, and without the file."""
    place = folder(world, record, "evaluation")
    key = place.name
    old = stage_of(world.store, "evaluation", {"of": "old"}, lambda draft: _copy(place / "per_user.parquet", draft))
    stages = tuple(stage.model_copy(update={"key": old.key}) if stage.key == key else stage for stage in record.stages)
    return record.model_copy(update={"stages": stages}), world.store


def damaged(world: World, record: RunRecord) -> tuple[RunRecord, StageStore]:
    path = folder(world, record, "evaluation") / LISTS
    path.write_bytes(path.read_bytes()[:-9])
    return record, world.store


def of_another_run(world: World, record: RunRecord) -> tuple[RunRecord, StageStore]:
    def compute(draft: Path) -> None:
        other = read_record(world.add("other", _turned))
        _copy(folder(world, other, "evaluation") / LISTS, draft)
        _copy(folder(world, record, "evaluation") / "per_user.parquet", draft)

    mixed = stage_of(world.store, "evaluation", {"of": "mixed"}, compute)
    stages = tuple(
        stage.model_copy(update={"key": mixed.key}) if stage.name == "evaluation" else stage for stage in record.stages
    )
    return record.model_copy(update={"stages": stages}), world.store


def without_values(world: World, record: RunRecord) -> tuple[RunRecord, StageStore]:
    return record.model_copy(update={"per_user_digest": ""}), world.store


@pytest.mark.parametrize(
    ("harm", "kind", "said"),
    [
        (elsewhere, DataMissing, f"the cache has no ranked lists of this run.*--cache-dir.*{COMMAND}"),
        (without_lists, DataMissing, f"before ranked lists were kept.*{COMMAND}"),
        (damaged, DataMissing, f"no ranked lists.*{COMMAND}"),
        (of_another_run, CorruptArtefact, f"do not agree with the per-user table.*{COMMAND}"),
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


def test_a_dataset_that_is_gone_or_another_is_said(world: World, record: RunRecord) -> None:
    with pytest.raises(CorruptArtefact, match="another one than the record's"):
        find_dataset_of(record.model_copy(update={"dataset_digest": "0" * 64}), world.store)
    shutil.rmtree(folder(world, record, "dataset"))
    with pytest.raises(DataMissing, match=f"(?s)no dataset of this run.*{COMMAND}"):
        find_dataset_of(record, world.store)


def _copy(source: Path, folder: Path) -> None:
    shutil.copyfile(source, folder / source.name)


def _turned(histories: Histories, k: int, beam: int) -> Ranking:
    return lists([row[row >= 0][::-1].tolist() for row in walking(histories, ITEMS, beam).items], k)
