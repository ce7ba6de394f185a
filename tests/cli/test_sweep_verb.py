"""``bench sweep`` as a user calls it: what it refuses, what it shows, how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.executors.local import InProcess
from genrec_unlearn_bench.grid.expand import GridCell
from genrec_unlearn_bench.grid.plan import Plan, PlannedCell
from genrec_unlearn_bench.grid.schedule import Job
from genrec_unlearn_bench.grid.state import SweepFolder
from genrec_unlearn_bench.grid.sweep_facts import read_facts
from genrec_unlearn_bench.tuning.selection import choose as choosing

GRID = """
name: two
axes: {task: demo-brand, method: [popularity, filter, tracer], scale: smoke}
settings: {device: cpu}
"""


def call(tmp_path: Path, *words: str) -> Result:
    (tmp_path / "two.yaml").write_text(GRID)
    places = ["--cache-dir", str(tmp_path / "cache"), "--results-dir", str(tmp_path / "results")]
    return CliRunner().invoke(app, ["sweep", str(tmp_path / "two.yaml"), *places, *words])


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cells that are planned and done without a recommender; gives the names of what was done."""
    done: list[str] = []
    faults: dict[str, Exception] = {"tracer": DataFault("a line is broken", where="items.csv:7")}

    def plan(cells: list[GridCell], *_: Any) -> Plan:
        return Plan(tuple(PlannedCell(cell, "done" if cell.name in done else "missing") for cell in cells))

    def work(job: Job, *_: Any) -> Any:
        if job.request.method in faults:
            raise faults.pop(job.request.method)
        done.append(job.name)
        return SimpleNamespace(folder=job.request.results_dir / job.request.method)

    def choose(name: str, folder: SweepFolder, cache: Path, jobs: list[Job], **_: Any) -> InProcess:
        return InProcess(folder, cache, work=work)

    monkeypatch.setattr("genrec_unlearn_bench.grid.plan.make_plan", plan)
    monkeypatch.setattr(choosing, "choose", choose)
    monkeypatch.setattr("genrec_unlearn_bench.cli.sweep_tables.EarlyTables.ended", lambda *_: None)
    return done


def test_a_failed_cell_is_told_with_its_log_and_tried_by_the_next_call(tmp_path: Path, light: list[str]) -> None:
    first = call(tmp_path)
    assert first.exit_code == 1
    assert "failed: demo-brand/tiger/tracer/smoke-core-default-seed0 (1 attempts)" in first.stdout
    assert "where: items.csv:7" in first.stdout
    assert "raise faults.pop" in first.stdout
    assert "2 of 3 jobs done, 1 failed" in first.stdout
    assert "[1/3] demo-brand/tiger/popularity/smoke-core-default-seed0: " in first.stderr
    second = call(tmp_path, "--json")
    assert second.exit_code == 0
    told = json.loads(second.stdout)
    assert [one["job"] for one in told["done"]] == ["demo-brand/tiger/tracer/smoke-core-default-seed0"]
    assert (told["failed"], told["left"], told["interrupted"]) == ([], [], False)
    third = call(tmp_path)
    assert (third.exit_code, "0 of 0 jobs done" in third.stdout) == (0, True)


def test_it_keeps_what_others_want_to_know(tmp_path: Path, light: list[str]) -> None:
    call(tmp_path, "--only", "*/filter/*")
    assert light == ["demo-brand/tiger/filter/smoke-core-default-seed0"]
    folder = SweepFolder.of(tmp_path / "cache", "two")
    facts = read_facts(folder)
    assert facts is not None
    assert (facts.grid, facts.cells, facts.done, facts.executor) == ("two", 1, 0, "local")
    assert folder.grid.read_text() == GRID
    assert [job.name for job in folder.jobs()] == light


def test_a_dry_run_shows_the_jobs_and_runs_none(tmp_path: Path, light: list[str]) -> None:
    shown = call(tmp_path, "--dry-run")
    assert shown.exit_code == 0
    assert "3 cells: 3 missing; 3 jobs" in shown.stdout
    listed = json.loads(call(tmp_path, "--dry-run", "--json").stdout)
    assert [job["request"]["method"] for job in listed["jobs"]] == ["popularity", "filter", "tracer"]
    assert (light, (tmp_path / "cache" / "sweeps").exists()) == ([], False)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--standing", "mising"), "did you mean missing"),
        (("--only", "*/nothing/*"), "no cell of the grid fits '*/nothing/*'"),
        (("--processes", "0"), "--processes"),
    ],
)
def test_wrong_calls_are_refused(tmp_path: Path, light: list[str], words: tuple[str, ...], told: str) -> None:
    result = call(tmp_path, *words)
    assert result.exit_code == 2
    assert told in result.stderr


def test_an_unknown_executor_is_named(tmp_path: Path) -> None:
    folder = SweepFolder.of(tmp_path, "two")
    with pytest.raises(Exception, match="did you mean local"):
        choosing.choose("locl", folder, tmp_path, [])
