"""The task rebuilt from a manifest and the per-user table is the task as it was resolved, for every kind of request."""

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


@pytest.mark.slow
@pytest.mark.parametrize("concept", [BRAND_TASK, ItemConcept(target_share=0.2, tolerance=0.2), INTERACTIONS])
@pytest.mark.parametrize("holdout", [False, True])
def test_the_task_is_what_was_resolved(tmp_path: Path, concept: Concept, holdout: bool) -> None:
    world = make_world(tmp_path, concept)
    digest = ""
    if holdout:
        _, lean, held = carve(world.dataset, world.split)
        world, digest = replace(world, split=lean), held.digest
    for method in ("original", "retrain", "npo"):
        world.add(method, walking, holdout=digest)
    task_runs = runs_of(world, "npo")
    assert np.array_equal(task_runs.split.items, world.split.items)
    assert np.array_equal(task_runs.split.pairs, world.split.pairs)
    for group, part in ((Group.FORGET, world.split.test.forget), (Group.RETAIN, world.split.test.retain)):
        found = task_runs.examples(group)
        for limit in (1, 4, None):
            assert np.array_equal(found.histories(limit).items, part.histories(limit).items)
        assert np.array_equal(found.users, part.users)
        assert np.array_equal(found.targets, part.targets)
        assert len(part) > 3


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
