"""``bench grid plan``: what it shows, lists, explains and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.grid.expand import expand, read_grid
from genrec_unlearn_bench.grid.plan import Plan
from genrec_unlearn_bench.store.store import StageStore
from tests.grid.light_graphs import LightBuilder, run_all
from tests.grid.test_collect import planned
from tests.grid.test_planning import tree_digest

GRID = """\
name: mini
axes: {task: [demo-brand], backbone: [tiger, letter], method: [original, retrain, filter, npo], seed: 0:2}
settings: {device: cpu, threads: 1}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's first seed as if it had been run on tiger, and a grid of two backbones and seeds."""
    root = tmp_path_factory.mktemp("planned")
    (root / "grid.yaml").write_text(GRID)
    results = root / "results"
    cells = expand(
        read_grid(str(root / "grid.yaml")), data_dir=None, results_dir=results, tuned_dir=root / "tuned", device=None
    )
    ran = [cell for cell in cells if cell.request.backbone == "tiger" and cell.request.seed == 0]
    run_all(ran, LightBuilder(), StageStore(root / "cache"))
    return root


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genrec_unlearn_bench.grid.expand.graph_builder", lambda **_: LightBuilder())


def called(world: Path, *words: str, grid: str = "grid.yaml", columns: int = 100) -> Result:
    places = ["--cache-dir", str(world / "cache"), "--results-dir", str(world / "results")]
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, ["grid", "plan", str(world / grid), *places, *words])


def test_the_table_fits_a_hundred_columns_and_nothing_is_written(world: Path) -> None:
    before = tree_digest(world)
    shown = called(world)
    assert shown.exit_code == 0, shown.output
    assert tree_digest(world) == before
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("mini: 16 cells")
    # A path is never broken: it is there to be copied.
    assert max(len(line) for line in lines if str(world) not in line) <= 100
    (tiger,) = [line for line in lines if line.split()[:2] == ["backbone", "tiger"]]
    assert tiger.split() == ["backbone", "tiger", "4", "4", "·"]
    (filtered,) = [line for line in lines if line.split()[:2] == ["method", "filter"]]
    assert filtered.split() == ["method", "filter", "1", "3", "·"]
    assert "shared stages to be made: 9" in shown.stdout
    assert "original: demo, tiger, smoke, seed 1" in shown.stdout
    assert "on one process" in shown.stdout


def test_as_json_every_cell_has_its_standing(world: Path) -> None:
    told = json.loads(called(world, "--json").stdout)
    assert told["counts"] == {"done": 4, "missing": 12, "impossible": 0}
    assert len(told["cells"]) == 16
    assert told["cells"][0]["status"] == "done"
    assert told["cells"][0]["result"].startswith(str(world / "results"))
    assert {stage["until"] for stage in told["shared"]} == {"sids", "original", "retrain"}
    assert len(json.loads(called(world, "--json", "--status", "done").stdout)["cells"]) == 4


def test_cells_are_listed_by_standing(world: Path) -> None:
    shown = called(world, "--status", "done")
    listed = [line for line in shown.stdout.splitlines() if line.startswith("done ")]
    assert len(listed) == 4


def test_one_cell_is_explained(world: Path) -> None:
    shown = called(world, "--explain", "tiger npo seed1")
    assert shown.exit_code == 0, shown.output
    assert "missing: not made yet: sids" in shown.stdout
    assert "seed: 0 then, 1 now" in shown.stdout
    assert json.loads(called(world, "--explain", "tiger npo seed0", "--json").stdout)["status"] == "done"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--explain", "demo-brand/tiger/npoo/default-core-default-seed0"], "did you mean"),
        (["--status", "finished"], "unknown status"),
    ],
)
def test_a_wrong_call_is_refused(world: Path, words: list[str], told: str) -> None:
    refused = called(world, *words)
    assert refused.exit_code == 2
    assert told in refused.stderr


def test_a_bad_grid_is_refused(world: Path) -> None:
    (world / "bad.yaml").write_text("name: bad\naxes: {task: [demo-brand], method: [fitler]}\n")
    refused = called(world, grid="bad.yaml")
    assert refused.exit_code == 2
    assert "filter" in refused.stderr
    (world / "bad.yaml").unlink()


def test_what_cannot_be_run_is_not_called_done(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = Plan((planned("one", "impossible", reason="no choice was made"),))
    monkeypatch.setattr("genrec_unlearn_bench.grid.plan.make_plan", lambda *_: impossible)
    shown = called(world)
    assert "1 cell: no choice was made" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "nothing of it can be run"


def test_the_time_of_stages_that_never_ran_is_unknown(world: Path, tmp_path: Path) -> None:
    shown = called(world, "--cache-dir", str(tmp_path))
    assert "time: unknown (nothing is known of 17 of 23 jobs)" in shown.stdout
