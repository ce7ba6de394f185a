"""What there is of a grid, gathered: whole results, nothing written over, and every cell that is not there with why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.grid.expand import GridCell
from genrec_unlearn_bench.grid.plan import CellStatus, Plan, PlannedCell
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import JobState, SweepFacts, SweepFolder
from genrec_unlearn_bench.grid.status import FILE, Collected, collect
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.progress import Progress

PUBLISHED = Path(__file__).parents[2] / "leaderboard" / "results"
ROWS = ("original", "retrain", "filter")


def planned(name: str, status: CellStatus = "missing", **more: object) -> PlannedCell:
    request = RunRequest(task="demo-brand", method="filter")
    return PlannedCell(GridCell(name=name, request=request), status, **more)  # type: ignore[arg-type]


@pytest.fixture
def results(tmp_path: Path) -> list[PlannedCell]:
    """Three real results in a folder of their own, as a plan finds them."""
    records = {path.parent.parent.name: path.parent for path in sorted(PUBLISHED.rglob(RECORD))}
    cells = []
    for row in ROWS:
        folder = tmp_path / "results" / records[row].relative_to(PUBLISHED)
        shutil.copytree(records[row], folder)
        cells.append(planned(row, "done", result=folder))
    return cells


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


NO_SWEEP = SweepFolder(Path("none"))


def gather(cells: list[PlannedCell], out: Path, sweep: SweepFolder = NO_SWEEP) -> Collected:
    return collect("mine", cells, sweep, out, Progress())


def test_results_go_over_whole_and_twice_is_the_same(results: list[PlannedCell], tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = gather(results[:2], out)
    assert found.counts == {"there": 2}
    assert Collected.model_validate_json((out / FILE).read_bytes()) == found
    for cell in found.cells:
        source = next(one.result for one in results if one.cell.name == cell.cell)
        assert source is not None
        assert files(out / cell.place) == files(source)
    before = {name: (out / name).stat().st_mtime_ns for name in files(out) if name != FILE}
    assert gather(results[:2], out) == found
    # What comes later is added.
    assert gather(results, out).counts == {"there": 3}
    assert before.items() <= {name: (out / name).stat().st_mtime_ns for name in files(out)}.items()


def test_nothing_is_written_over(results: list[PlannedCell], tmp_path: Path) -> None:
    out = tmp_path / "out"
    place = out / gather(results[:1], out).cells[0].place
    (place / "losses.jsonl").write_text("mine")
    before = files(place)
    gather(results, out)
    assert files(place) == before


def test_a_result_that_was_changed_is_damaged_and_stays_behind(results: list[PlannedCell], tmp_path: Path) -> None:
    assert results[0].result is not None
    table = results[0].result / "per_user.parquet"
    table.write_bytes(table.read_bytes()[:-1] + b"x")
    found = gather(results, tmp_path / "out")
    assert found.counts == {"there": 2, "damaged": 1}
    assert "was changed" in found.cells[0].reason


def test_what_is_not_there_says_why(tmp_path: Path) -> None:
    sweep = SweepFolder.of(tmp_path / "cache", "mine")
    request = RunRequest(task="demo-brand", method="filter")
    jobs = [Job(name=name, request=request) for name in ("failed", "runs", "fell", "waits")]
    sweep.begin(SweepFacts(started=1.0), jobs)
    for name, state, more in (
        ("failed", "failed", {"error": "no such thing\n  where: here"}),
        ("fell", "skipped", {"error": "it needs failed, which failed"}),
        ("runs", "running", {"stage": "original"}),
    ):
        sweep.write(JobState.model_validate({"job": name, "state": state, "updated": 1e9, "host": "n17", **more}))
    cells = [planned(name, reason="by the plan") for name in ("failed", "runs", "fell", "waits")]
    cells.append(planned("no", "impossible", reason="no"))
    found = gather(cells, tmp_path / "out", sweep)
    assert {cell.cell: (cell.state, cell.reason) for cell in found.cells}["failed"] == ("failed", "no such thing")
    states = {cell.cell: cell.state for cell in found.cells}
    assert states["runs"] == "running"
    assert states["fell"] == "skipped"
    assert states["no"] == "impossible"
    assert gather(cells[:1], tmp_path / "none").cells[0].state == "missing"


def test_the_command_gathers_and_says_what_is_missing(
    results: list[PlannedCell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan((*results, planned("late", reason="it is not unlearned yet")))
    monkeypatch.setattr("genrec_unlearn_bench.grid.plan.make_plan", lambda cells, build, store, progress: plan)
    out = tmp_path / "out"
    call = ["grid", "collect", "smoke", "--cache-dir", str(tmp_path / "cache"), "--out", str(out)]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert "4 cells: 3 there, 1 missing" in done.output
    assert "missing: late: it is not unlearned yet" in done.output
    content = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert content["counts"] == {"there": 3, "missing": 1}
    plan = Plan((planned("late", reason="it is not unlearned yet"),))
    assert "tables:" in done.output
    assert "tables:" not in CliRunner().invoke(app, call).output  # There is nothing to make them of.
    failed = CliRunner().invoke(app, ["grid", "collect", "smok", "--cache-dir", str(tmp_path / "cache")])
    assert failed.exit_code == 2
