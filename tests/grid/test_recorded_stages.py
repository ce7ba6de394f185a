"""What a plan learns from results where the store knows nothing: of which stages, of whose machine, and when not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.grid.outlook import outlook
from genrec_unlearn_bench.grid.plan import Plan, make_plan
from genrec_unlearn_bench.grid.recorded_stages import known_results, recorded_stages
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from tests.grid.planned_world import fake_run, grid_of, lay_grounds

SECONDS = {
    "dataset": 1.0,
    "features": 2.0,
    "sids": 4.0,
    "original": 60.0,
    "unlearned": 8.0,
    "retrain": 50.0,
    "evaluation of retrain": 6.0,
    "evaluation": 5.0,
}
FREE = "Some Processor, 4 threads"


def record(root: Path, method: str = "filter", *, key: str = "a", **changes: Any) -> None:
    """A result's record as far as it is read; stages of equal names and ``key`` are one stage."""
    seconds = {**SECONDS, **changes.pop("seconds", {})}
    content = {
        "key": f"{method}{key}",
        "cell": {
            "task": "demo-brand",
            "backbone": "tiger",
            "method": method,
            "seed": 0,
            "scale": "smoke",
            "suite": "core",
            **changes.pop("cell", {}),
        },
        "encoder": "tfidf",
        "stages": [
            {"name": name, "key": f"{name}{method if name == 'unlearned' else ''}{key}", "seconds": took}
            for name, took in seconds.items()
        ],
        "environment": {"device": "cpu", "device_name": "Some Processor", "threads": 4},
        "cost": {"peak_memory_mib": 321.0},
        **changes,
    }
    folder = root / content["cell"]["task"] / content["cell"]["backbone"] / method / f"smoke-seed0-{key}"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(content))


def planned(tmp_path: Path, *, rows: tuple[str, ...] = ("original", "filter", "npo"), **fields: Any) -> Plan:
    cells = grid_of(tmp_path / "none", rows=rows, **fields)
    return make_plan(cells, StageStore(tmp_path / "cache"), Progress(), [tmp_path / "nowhere", tmp_path / "records"])


def by_method(plan: Plan) -> dict[str, Any]:
    return {one.cell.request.method: one for one in plan.cells}


def test_an_empty_cache_is_told_by_results(tmp_path: Path) -> None:
    record(tmp_path / "records")
    plan = planned(tmp_path)
    shared = {stage.until: stage.seconds for stage in plan.shared}
    # Defining a task takes a millisecond and is in no record.
    assert shared == {"ground": 3.0, "tokens": 4.0, "original": 60.0, "retrain": 50.0}
    rows = by_method(plan)
    # The median of 6 and 5 is what one evaluation takes.
    assert (rows["original"].seconds, rows["filter"].seconds) == (5.5, 13.5)
    assert (rows["filter"].machines, rows["filter"].memory_mib) == ({FREE}, 321.0)
    assert not rows["filter"].alike, "a record does not say what was asked for"
    assert rows["filter"].size is None, "nor how large a stage is"
    whole = outlook(plan, 2)
    assert (whole.unknown, whole.recorded, whole.unknown_size, whole.machines) == (0, 7, 7, (FREE,))
    assert whole.longest == 3 + 4 + 60 + 13.5, "the retrained model is trained beside the original"


def test_the_store_goes_before_results_as_like(tmp_path: Path) -> None:
    record(tmp_path / "records")
    store = StageStore(tmp_path / "cache")
    lay_grounds(store, ["demo-brand"])
    fake_run(store, grid_of(tmp_path / "none", rows=("original", "filter")), results=False)
    rows = by_method(planned(tmp_path, seeds=2))
    assert (rows["filter"].seconds, rows["filter"].machines, rows["filter"].alike) == (7.0, frozenset(), True)
    # Of npo the store has another method alone; so have the results.
    assert (rows["npo"].seconds, rows["npo"].machines) == (7.0, frozenset())


def test_results_of_the_method_go_before_other_methods_of_the_store(tmp_path: Path) -> None:
    record(tmp_path / "records", "npo")
    store = StageStore(tmp_path / "cache")
    lay_grounds(store, ["demo-brand"])
    fake_run(store, grid_of(tmp_path / "none", rows=("original", "filter")), results=False)
    npo = by_method(planned(tmp_path))["npo"]
    assert (npo.seconds, npo.machines) == (8.0 + 3.5, {FREE})


def test_a_stage_of_many_results_counts_once(tmp_path: Path) -> None:
    for method in ("filter", "npo", "tracer", "elm"):
        record(tmp_path / "records", method)
    record(tmp_path / "records", "scrub", key="b", seconds={"original": 100.0})
    plan = planned(tmp_path)
    assert next(stage.seconds for stage in plan.shared if stage.until == "original") == 80.0
    found = list(recorded_stages([tmp_path / "records"]))
    assert sorted(stage.seconds for stage in found if stage.name == "original") == [60.0, 100.0]
    assert sum(stage.name == "unlearned" for stage in found) == 5


@pytest.mark.parametrize(
    "changes",
    [
        {"cell": {"scale": "small"}},
        {"environment": {"device": "cuda", "device_name": "Some GPU", "threads": 4}},
        {"cell": {"task": "nobodys-task"}},
        {"environment": {}},
        {"stages": [{"name": "original"}]},
        {"cell": {"seed": "zero"}},
    ],
    ids=["scale", "device", "unknown task", "no environment", "a stage without a time", "a broken cell"],
)
def test_what_is_not_as_like_or_broken_tells_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    record(tmp_path / "records", **changes)
    plan = planned(tmp_path)
    assert {stage.seconds for stage in plan.shared} == {None}
    assert outlook(plan).unknown == 7


def test_a_record_that_is_no_json_is_passed_over(tmp_path: Path) -> None:
    record(tmp_path / "records")
    record(tmp_path / "records", key="b")
    (tmp_path / "records/demo-brand/tiger/filter/smoke-seed0-b/result.json").write_text("{")
    assert by_method(planned(tmp_path))["filter"].seconds == 13.5


def test_results_with_interactions_held_out_tell_of_their_suite_first(tmp_path: Path) -> None:
    record(tmp_path / "records", seconds={"original": 30.0})
    record(tmp_path / "records", "npo", key="b", cell={"suite": "full"}, holdout="1234")
    plan = planned(tmp_path, suite="full", measure=("quantisation",))
    assert next(stage.seconds for stage in plan.shared if stage.until == "original") == 60.0


def test_a_stage_of_all_backbones_tells_of_each(tmp_path: Path) -> None:
    for backbone in ("tiger", "letter"):
        record(
            tmp_path / "records",
            "popularity",
            key=backbone,
            cell={"backbone": backbone},
            stages=[
                {"name": "popularity", "key": "one", "seconds": 0.25},
                {"name": "evaluation", "key": "one", "seconds": 2.0},
            ],
        )
    plan = planned(tmp_path, rows=("popularity",), backbones=("tiger", "letter"))
    assert [one.seconds for one in plan.cells] == [2.25, 2.25]


def test_the_published_results_tell_what_a_newcomer_pays(tmp_path: Path) -> None:
    """Of a checkout: every stage of a grid that was published is known, on a machine that has run nothing."""
    own, *published = known_results(tmp_path / "results")
    if not any(folder.is_dir() for folder in published):
        pytest.skip("the suite was installed without its published results")
    assert own == tmp_path / "results"
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    cells = grid_of(own, rows=("original", "retrain", "tracer", "npo"))
    whole = outlook(make_plan(cells, StageStore(tmp_path / "cache"), Progress(), [own, *published]))
    assert (whole.unknown, whole.recorded) == (0, whole.jobs)
    assert whole.machines
    assert whole.seconds > 0
