"""A plan and a run agree: what is planned as done is found done by the run, under the same key."""

from __future__ import annotations

from typing import Any

import pytest

from genrec_unlearn_bench.runs.grid.cell import GridCell, cell_name
from genrec_unlearn_bench.runs.grid.plan import PlannedCell, make_plan
from genrec_unlearn_bench.runs.grid.probe import Probe
from genrec_unlearn_bench.runs.request import RunRequest
from tests.runs.conftest import Bench, Told

STEPS = {"training.max_steps": 2}


def planned(bench: Bench, request: RunRequest) -> PlannedCell:
    (found,) = make_plan([GridCell(cell_name(request), request)], bench.store, Told()).cells
    return found


def agree(bench: Bench, method: str, **fields: Any) -> None:
    """Run a cell that is not done, and see that the plan knows what came out; then that nothing is computed again."""
    request = bench.request(method, **fields)
    before = planned(bench, request)
    done = bench.run(method, **fields)
    walk = Probe(bench.store).walk(request)
    assert walk.key == done.record.key
    after = planned(bench, request)
    assert (after.standing, after.result) == ("done", done.folder)
    if before.standing == "missing" and before.reason == "only the result is to be written":
        assert bench.told.computed == []
    bench.run(method, **fields)
    assert bench.told.computed == []


@pytest.mark.parametrize("method", ["original", "retrain", "tracer", "filter", "popularity"])
def test_a_core_cell(trained: Bench, method: str) -> None:
    agree(trained, method)


def test_a_stream(trained: Bench) -> None:
    agree(trained, "filter", requests=2)


def test_no_oracle(trained: Bench) -> None:
    agree(trained, "filter", oracle_seeds=0)


def test_measurements_beyond_the_core(trained: Bench) -> None:
    """Which parts they have depends on the model: tables and serving rules are looked at, weights are not."""
    for method in ("filter", "original"):
        agree(trained, method, suite="full", measure=("quantisation",))


@pytest.mark.slow
def test_every_kind_of_model_under_measurements(trained: Bench) -> None:
    for method in ("filter", "random-reassign", "retrain-full", "popularity"):
        agree(trained, method, suite="full", measure=("quantisation", "relearning"))
    agree(
        trained,
        "filter",
        backbone="mor",
        backbone_set={"training.max_steps": 2},
        suite="full",
        measure=("quantisation",),
    )


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["letter", "etegrec", "p5sid"])
def test_other_backbones(trained: Bench, backbone: str) -> None:
    for method in ("filter", "retrain-full"):
        agree(trained, method, backbone=backbone, backbone_set=STEPS)


@pytest.mark.slow
def test_shadow_models(trained: Bench) -> None:
    agree(trained, "filter", suite="full", measure=("quantisation",), shadows=2)
