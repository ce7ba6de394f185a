"""The examples found by the per-user table are those that the task was resolved to, for every kind of request."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.holdout import carve
from genrec_unlearn_bench.data.tasks import Concept, InteractionConcept, ItemConcept
from genrec_unlearn_bench.errors import CorruptArtefact, ProtocolMismatch
from genrec_unlearn_bench.evaluation.metric import Group
from tests.pipeline.listed_world import BRAND_TASK, keeping, make_world, walking
from tests.reporting.examples.planted_runs import made_world, runs_of

INTERACTIONS = InteractionConcept(share=0.3)


@pytest.mark.parametrize("concept", [BRAND_TASK, ItemConcept(target_share=0.2, tolerance=0.2), INTERACTIONS])
@pytest.mark.parametrize("holdout", [False, True])
def test_the_examples_are_those_that_were_resolved(tmp_path: Path, concept: Concept, holdout: bool) -> None:
    world = make_world(tmp_path, concept)
    if holdout:
        world = replace(world, split=carve(world.dataset, world.split)[1])
    for method in ("original", "retrain", "npo"):
        world.add(method, walking)
    task_runs = runs_of(world, "npo")
    for user in range(30):
        marked = [task_runs.is_forgotten(user, item) for item in range(len(world.split.items))]
        pairs = [user in world.split.pairs[world.split.pairs[:, 1] == item, 0] for item in range(len(marked))]
        assert holdout or marked == [a or b for a, b in zip(world.split.items, pairs, strict=True)]
    for group, part in ((Group.FORGET, world.split.test.forget), (Group.RETAIN, world.split.test.retain)):
        assert len(part) > 3
        for row in range(len(part)):
            found, expected = task_runs.example(group, row), part.subset(np.asarray([row]))
            assert np.array_equal(found.histories().items, expected.histories().items)
            assert (found.users, found.targets) == (expected.users, expected.targets)


def test_runs_on_other_examples_are_not_compared(tmp_path: Path) -> None:
    world = made_world(tmp_path / "one")
    other = make_world(tmp_path / "one", InteractionConcept(share=0.3))
    world_record = {"task": world.task.name, "task_digest": world.split.manifest.digest}
    folder = other.add("tracer", keeping([1]), seed=1, **world_record)
    moved = world.results / "world-brand/tiger/npo/small-seed0-other"
    folder.rename(moved)
    record = json.loads((moved / "result.json").read_text(encoding="utf-8"))
    record["cell"] |= {"method": "npo", "seed": 0}
    record["created"] = "2099-01-01T00:00:00+00:00"
    (moved / "result.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(ProtocolMismatch, match="different test examples"):
        runs_of(world, "npo")


@pytest.mark.parametrize("harm", ["gone", "broken", "another"])
def test_a_manifest_that_does_not_belong_is_said(tmp_path: Path, harm: str) -> None:
    world = made_world(tmp_path)
    path = next(world.results.rglob("original/*/manifest.json"))
    if harm == "gone":
        path.unlink()
    elif harm == "broken":
        path.write_text("{}", encoding="utf-8")
    else:
        path.write_text(world.split.manifest.model_copy(update={"digest": "0"}).model_dump_json(), encoding="utf-8")
    with pytest.raises(CorruptArtefact, match="manifest") as fault:
        runs_of(world, "npo")
    assert "bench run --task world-brand --method original" in str(fault.value)
