"""Plans: what is done, missing or impossible, what is shared, what it costs, and how long planning takes."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.grid.expand import CellGraph, GridCell
from genrec_unlearn_bench.grid.plan import Plan, can_download, explain_cell, make_plan
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import result_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from tests.grid.light_graphs import LightBuilder, grid_of, run_all, write_result

SECONDS = 3.0
CELLS = 20_000


def plan(cells: list[GridCell], cache: Path, build: LightBuilder | None = None) -> Plan:
    return make_plan(cells, build or LightBuilder(), StageStore(cache), Progress())


def tree_digest(root: Path) -> str:
    """Of every name, time and byte under a folder."""
    state = hashlib.blake2b()
    for path in sorted(root.rglob("*")):
        status = path.stat()
        state.update(f"{path.relative_to(root)} {status.st_mtime_ns} {status.st_size}".encode())
        if path.is_file():
            state.update(path.read_bytes())
    return state.hexdigest()


def test_what_was_run_is_done_and_the_rest_names_what_it_waits_for(tmp_path: Path) -> None:
    cells = grid_of(tmp_path / "results", rows=("original", "retrain", "filter", "npo"), seeds=2)
    cells += grid_of(tmp_path / "results", rows=("impossible",))
    run_all(cells[:3], LightBuilder(), StageStore(tmp_path / "cache"))
    before = tree_digest(tmp_path)
    found = plan(cells, tmp_path / "cache")
    assert tree_digest(tmp_path) == before
    assert found.counts == {"done": 3, "missing": 5, "impossible": 1}
    npo, seed1, impossible = found.cells[3], found.cells[4], found.cells[8]
    assert (npo.reason, npo.needs) == ("not made yet: unlearned", ())
    assert seed1.reason == "not made yet: sids"
    assert (impossible.reason, impossible.hint) == ("the backbone cannot do that", "choose another one")
    graph = LightBuilder()(cells[0].request)
    assert found.cells[0].result == result_folder(cells[0].request.results_dir, graph.cell, graph.result.key)


def test_shared_stages_are_made_once_and_before_their_cells(tmp_path: Path) -> None:
    cells = grid_of(tmp_path, tasks=("demo-brand", "demo-price"), rows=("original", "retrain", "filter"), seeds=1)
    found = plan(cells, tmp_path / "cache")
    names = {stage.until: stage for stage in found.shared if stage.until not in ("retrain", "task")}
    # Every task has its own task and retrain; the dataset is its own job, as three stages need it.
    assert sorted(names) == ["dataset", "original", "sids"]
    assert names["dataset"].name.startswith("dataset: demo (")
    assert names["original"].name.startswith("original: demo, tiger, smoke, seed 0 (")
    retrain = next(stage for stage in found.shared if stage.until == "retrain")
    assert retrain.name.startswith("retrain: demo-brand, tiger, smoke, seed 0 (")
    assert len(names["original"].cells) == 4
    assert set(retrain.needs) == {names["dataset"].name, names["sids"].name, *retrain.needs}
    jobs = found.jobs
    order = [job.name for job in jobs]
    assert len(order) == len(set(order))
    assert all(order.index(need) < order.index(job.name) for job in jobs for need in job.needs)
    assert [job.name for job in jobs if job.until == "result"] == [cell.name for cell in cells]
    # The first cells do not wait for the stages of the second task.
    assert order.index(cells[2].name) < order.index(next(name for name in order if name.startswith("retrain: demo-p")))


def test_a_stage_of_one_cell_alone_has_no_job_of_its_own(tmp_path: Path) -> None:
    alone = plan(grid_of(tmp_path, rows=("retrain",)), tmp_path / "cache")
    assert (alone.shared, alone.cells[0].needs) == ((), ())


def test_costs_are_medians_of_the_same_stage_and_configuration(tmp_path: Path) -> None:
    cells = grid_of(tmp_path / "results", rows=("original", "retrain", "filter", "npo"), seeds=2)
    assert plan(cells, tmp_path / "cache").cells[2].seconds is None
    run_all(cells[:3], LightBuilder(seconds=0.2), StageStore(tmp_path / "cache"))
    found = plan(cells, tmp_path / "cache")
    assert found.cells[0].seconds == 0.0
    # The seed is no part of the configuration; of npo nothing is known.
    assert found.cells[6].seconds == pytest.approx(0.2, abs=0.15)
    assert (found.cells[3].seconds, found.cells[7].seconds) == (None, None)
    original = next(stage for stage in found.shared if stage.until == "original")
    assert original.seconds == pytest.approx(0.2, abs=0.15)
    assert sum(job.seconds is None for job in found.jobs) == 2


def test_a_training_is_estimated_from_the_same_dataset_alone(tmp_path: Path) -> None:
    """Its passes are the configuration's, its steps the data's."""
    run_all(grid_of(tmp_path / "results", rows=("original",)), LightBuilder(), StageStore(tmp_path / "cache"))
    cells = grid_of(tmp_path / "results", tasks=("demo-price", "toys-price"), rows=("filter", "npo"), seeds=2)
    jobs = [job for job in plan(cells, tmp_path / "cache").jobs if job.until == "original"]
    assert {job.request.task: job.seconds is not None for job in jobs} == {"demo-price": True, "toys-price": False}


def test_a_result_made_from_something_else_is_not_done_and_the_difference_is_explained(tmp_path: Path) -> None:
    cells = grid_of(tmp_path / "results", rows=("original", "filter"))
    run_all(cells, LightBuilder(), StageStore(tmp_path / "cache"))
    newer = LightBuilder(versions={"retrain": 2})
    assert plan(cells, tmp_path / "cache", newer).counts["missing"] == 2
    explained = explain_cell(cells[1], newer, StageStore(tmp_path / "cache"))
    assert (explained["status"], explained["reason"]) == ("missing", "not made yet: retrain")
    assert explained["difference"] is not None
    assert explained["difference"]["fields"] == ("version: 1 then, 2 now",)
    assert not next(step for step in explained["steps"] if step["name"] == "retrain")["there"]


def test_a_missing_cell_is_compared_with_the_nearest_stored_stage(tmp_path: Path) -> None:
    cells = grid_of(tmp_path / "results", rows=("filter",), seeds=2)
    run_all(cells[:1], LightBuilder(), StageStore(tmp_path / "cache"))
    explained = explain_cell(cells[1], LightBuilder(), StageStore(tmp_path / "cache"))
    assert explained["difference"] is not None
    assert explained["difference"]["stage"] == "sids"
    assert explained["difference"]["fields"] == ("config.seed: 0 then, 1 now",)
    assert Path(explained["difference"]["compared"], "stage.json").is_file()


@pytest.mark.parametrize("damage", ["emptied", "cut", "no table", "empty table"])
def test_an_incomplete_result_is_not_done(tmp_path: Path, damage: str) -> None:
    cells = grid_of(tmp_path / "results", rows=("filter",))
    run_all(cells, LightBuilder(), StageStore(tmp_path / "cache"))
    folder = plan(cells, tmp_path / "cache").cells[0].result
    assert folder is not None
    if damage == "emptied":
        (folder / "result.json").write_bytes(b"")
    elif damage == "cut":
        content = (folder / "result.json").read_bytes()
        (folder / "result.json").write_bytes(content[: len(content) // 2])
    elif damage == "no table":
        (folder / "per_user.parquet").unlink()
    else:
        (folder / "per_user.parquet").write_bytes(b"")
    (cell,) = plan(cells, tmp_path / "cache").cells
    assert cell.status == "missing"
    assert cell.reason == "not made yet: result"


def test_a_result_without_a_table_of_users_is_done_where_its_record_has_none(tmp_path: Path) -> None:
    cells = grid_of(tmp_path / "results", rows=("filter",))
    folder = write_result(cells[0].request, LightBuilder()(cells[0].request))
    record = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**record, "per_user_digest": ""}))
    (folder / "per_user.parquet").unlink()
    assert plan(cells, tmp_path / "cache").counts["done"] == 1


def test_a_damaged_manifest_never_ends_a_plan(tmp_path: Path) -> None:
    cells = grid_of(tmp_path / "results", rows=("original", "filter", "npo"))
    run_all(cells[:2], LightBuilder(), StageStore(tmp_path / "cache"))
    for path in (tmp_path / "cache").rglob("stage.json"):
        path.write_text("" if "task" in path.parts else "{")
    for path in (tmp_path / "cache").rglob("key.json"):
        path.write_text("]")
    found = plan(cells, tmp_path / "cache")
    assert found.counts == {"done": 2, "missing": 1, "impossible": 0}
    assert explain_cell(cells[2], LightBuilder(), StageStore(tmp_path / "cache"))["status"] == "missing"


def test_a_dataset_that_is_elsewhere_is_missing_or_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(request: RunRequest) -> CellGraph:
        raise DataMissing("its files are not here", hint="download them")

    cells = grid_of(tmp_path, tasks=("sports-brand",), rows=("filter",))
    cells[0].axes["dataset"] = "sports"  # type: ignore[index]
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_OFFLINE", "1")
    (cell,) = make_plan(cells, build, StageStore(tmp_path), Progress()).cells
    assert (cell.status, cell.hint) == ("impossible", "download them")
    monkeypatch.setattr("genrec_unlearn_bench.grid.plan.can_download", lambda *_: True)
    (cell,) = make_plan(cells, build, StageStore(tmp_path), Progress()).cells
    assert (cell.status, cell.reason) == ("missing", "the dataset's files are to be downloaded")
    assert [job.name for job in Plan((cell,)).jobs] == [cell.cell.name]


def test_files_come_from_addresses_or_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GENREC_UNLEARN_BENCH_OFFLINE", raising=False)
    assert [can_download(name, None) for name in ("beauty-2023", "sports", "demo")] == [True, True, False]


@pytest.mark.huge
def test_twenty_thousand_cells(tmp_path: Path) -> None:
    """Without building graphs, which the pipeline answers for: looking up all done, and sharing out all missing."""
    rows = [f"method{number}" for number in range(100)]
    cells = grid_of(tmp_path / "results", rows=rows, backbones=("tiger", "letter", "p5sid", "etegrec"), seeds=50)
    assert len(cells) == CELLS
    build = LightBuilder()
    graphs = {id(cell.request): build(cell.request) for cell in cells}
    for graph in graphs.values():
        assert graph.result.key
    store = StageStore(tmp_path / "cache")

    def timed() -> tuple[Plan, float]:
        began = time.process_time()
        found = make_plan(cells, lambda request: graphs[id(request)], store, Progress())
        return found, time.process_time() - began

    missing, seconds_missing = timed()
    assert missing.counts["missing"] == CELLS
    for cell in cells:
        graph = graphs[id(cell.request)]
        folder = result_folder(cell.request.results_dir, graph.cell, graph.result.key)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text('{"key": ""}\n')
        (folder / "per_user.parquet").write_text("users")
    done, seconds_done = timed()
    assert done.counts["done"] == CELLS
    print(f"all missing {seconds_missing:.1f} s, all done {seconds_done:.1f} s")
    assert seconds_done < SECONDS
    assert seconds_missing < 2 * SECONDS
