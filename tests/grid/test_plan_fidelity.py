"""A plan and a run agree: what is planned as done is found done by the run, under the same key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.tiger import Tiger
from genrec_unlearn_bench.grid.cell import GridCell, cell_name
from genrec_unlearn_bench.grid.plan import PlannedCell, make_plan
from genrec_unlearn_bench.grid.probe import Probe
from genrec_unlearn_bench.grid.stand_in import stand_in
from genrec_unlearn_bench.pipeline.request import RunRequest
from tests.pipeline.conftest import Bench, Told

STEPS = {"training.max_steps": 2}


def planned(bench: Bench, request: RunRequest) -> PlannedCell:
    (found,) = make_plan([GridCell(cell_name(request), request)], bench.store, Told()).cells
    return found


def disagreements(bench: Bench, method: str, **fields: Any) -> list[str]:
    """Run a cell that is not done. What the plan then gets wrong of it, and what is computed needlessly."""
    request = bench.request(method, **fields)
    before = planned(bench, request)
    done = bench.run(method, **fields)
    computed = {"where only the result was to be written": list(bench.told.computed)}
    if before.reason != "only the result is to be written":
        computed.clear()
    key = Probe(bench.store).walk(request).key
    after = planned(bench, request)
    bench.run(method, **fields)
    computed["by a run of what is done"] = list(bench.told.computed)
    return [
        *([f"planned key {key}, run's key {done.record.key}"] if key != done.record.key else []),
        *([f"stands as {after.standing}: {after.reason}"] if after.standing != "done" else []),
        *([f"planned result {after.result}, run's {done.folder}"] if after.result != done.folder else []),
        *(f"{method}: {stages} computed {when}" for when, stages in computed.items() if stages),
    ]


@pytest.mark.parametrize("method", ["original", "retrain", "tracer", "filter", "popularity"])
def test_a_core_cell(trained: Bench, method: str) -> None:
    assert disagreements(trained, method) == []


def test_a_stream(trained: Bench) -> None:
    assert disagreements(trained, "filter", requests=2) == []


def test_no_oracle(trained: Bench) -> None:
    assert disagreements(trained, "filter", oracle_seeds=0) == []


def test_measurements_beyond_the_core(trained: Bench) -> None:
    """Which parts they have depends on the model: tables and serving rules are looked at, weights are not."""
    for method in ("filter", "original"):
        assert disagreements(trained, method, suite="full", measure=("quantisation",)) == []


@pytest.mark.slow
def test_every_kind_of_model_under_measurements(trained: Bench) -> None:
    for method in ("filter", "random-reassign", "retrain-full", "popularity"):
        assert disagreements(trained, method, suite="full", measure=("quantisation", "relearning")) == []
    causal = {"backbone": "mor", "backbone_set": STEPS}
    assert disagreements(trained, "filter", **causal, suite="full", measure=("quantisation",)) == []


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["letter", "etegrec", "p5sid"])
def test_other_backbones(trained: Bench, backbone: str) -> None:
    joint = {"joint.epochs": 2, "joint.warm_epoch": 1, "second.max_steps": 2, "alone.max_steps": 2}
    steps = joint if backbone == "etegrec" else STEPS
    for method in ("filter", "retrain-full"):
        assert disagreements(trained, method, backbone=backbone, backbone_set=steps) == []


def test_a_stand_in_is_as_large_as_what_it_stands_for(trained: Bench) -> None:
    """Shadow models are refused by the recommender's size, so a plan has to know it without the weights."""
    trained.run("original")
    sizes = []
    for folder in (trained.store.root / "original").glob("*/*/model"):
        if json.loads((folder.parent / "stage.json").read_text())["backbone"] != Tiger.name:
            continue
        real, found = Tiger.load(folder), stand_in(folder)
        assert isinstance(found, Recommender)
        sizes.append([sum(one.numel() for one in model.module.parameters()) for model in (real, found)])
    assert all(real == found > 10_000 for real, found in sizes)
    assert sizes


def test_shadow_models(trained: Bench) -> None:
    assert disagreements(trained, "filter", suite="full", measure=("membership",), shadows=4) == []
