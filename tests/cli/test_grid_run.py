"""``bench grid run`` as a user calls it: what it refuses, what it shows, how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.grid.state import SweepFolder
from tests.cli.conftest import Light

ROOT = Path(__file__).parents[2]
GRID = """
name: two
axes: {task: demo-brand, method: [popularity, filter, tracer], scale: smoke}
settings: {device: cpu}
"""


def call(tmp_path: Path, *words: str) -> Result:
    (tmp_path / "two.yaml").write_text(GRID)
    places = ["--cache-dir", str(tmp_path / "cache"), "--results-dir", str(tmp_path / "results")]
    return CliRunner().invoke(app, ["grid", "run", str(tmp_path / "two.yaml"), *places, *words])


def test_a_failed_cell_is_shown_with_its_log_and_tried_by_the_next_call(tmp_path: Path, light: Light) -> None:
    light.faults["tracer"] = DataFault("a line is broken", where="items.csv:7")
    first = call(tmp_path)
    assert first.exit_code == 1, first.output
    assert "demo-brand/tiger/tracer/smoke-core-default-seed0, attempt 1: failed: a line is broken" in first.stdout
    assert "where: items.csv:7" in first.stdout
    assert "raise self.faults.pop" in first.stdout
    assert "jobs done, 1 failed" in first.stdout
    assert "demo-brand/tiger/popularity/smoke-core-default-seed0: " in first.stderr
    second = call(tmp_path, "--json")
    assert second.exit_code == 0
    content = json.loads(second.stdout)
    assert [one["job"] for one in content["done"]] == ["demo-brand/tiger/tracer/smoke-core-default-seed0"]
    assert (content["failed"], content["left"], content["interrupted"]) == ([], [], False)
    third = call(tmp_path)
    assert (third.exit_code, "0 of 0 jobs done" in third.stdout) == (0, True)


def test_a_grid_of_which_nothing_can_be_run_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(GRID.replace("{device: cpu}", "{device: cpu, backbone_set: {training.epoch: 1}}"))
    places = ["--cache-dir", str(tmp_path / "cache"), "--results-dir", str(tmp_path / "results")]
    done = CliRunner().invoke(app, ["grid", "run", str(path), *places])
    assert done.exit_code == 1
    assert "training.epoch: unknown key; did you mean 'epochs'" in done.output


def test_a_cell_that_diverged_ends_with_1(tmp_path: Path, light: Light) -> None:
    light.diverged.add("filter")
    shown = call(tmp_path)
    assert shown.exit_code == 1
    assert "diverged, so not ranked: demo-brand/tiger/filter/smoke-core-default-seed0" in shown.stdout


def test_an_interrupt_ends_with_130_and_the_same_call_goes_on(tmp_path: Path, light: Light) -> None:
    light.faults["filter"] = KeyboardInterrupt()
    shown = call(tmp_path, "--json")
    assert shown.exit_code == 130
    content = json.loads(shown.stdout)
    assert (content["interrupted"], len(content["left"])) == (True, 2)
    assert call(tmp_path).exit_code == 0
    assert len(light.done) == 3


def test_a_finished_sweep_is_enough_with_a_cache_that_may_only_be_read(
    tmp_path: Path, light: Light, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(tmp_path).exit_code == 0
    folder = SweepFolder.of(tmp_path / "cache", "two").root
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished sweep writes nothing")

    # Permissions mean nothing to root, under whom tests may run.
    monkeypatch.setattr(SweepFolder, "begin", refuse)
    monkeypatch.setattr(SweepFolder, "write", refuse)
    shown = call(tmp_path)
    assert (shown.exit_code, shown.exception) == (0, None)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")} == before
    assert folder.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_output_without_unicode_gets_replacement_characters(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "grid.yaml").write_text("name: one\naxes: {task: demo-brand, method: filter}\n")
    program = "from genrec_unlearn_bench.cli.start import run; run()"
    places = ["--cache-dir", str(tmp_path / "cache"), "--results-dir", str(tmp_path / "rés✓ults")]
    done = subprocess.run(
        [sys.executable, "-c", program, "grid", "run", str(tmp_path / "grid.yaml"), *places, "--dry-run"],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    plan = subprocess.run(
        [sys.executable, "-c", program, "grid", "plan", str(tmp_path / "grid.yaml"), *places],
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert plan.returncode == 0, plan.stderr


def test_it_keeps_what_others_want_to_know(tmp_path: Path, light: Light) -> None:
    call(tmp_path, "--only", "*/filter/*")
    assert light.done == ["demo-brand/tiger/filter/smoke-core-default-seed0"]
    folder = SweepFolder.of(tmp_path / "cache", "two")
    facts = folder.facts()
    assert (facts.cells, facts.done, Path(facts.file).read_text()) == (1, 0, GRID)
    assert [job["name"] for job in folder.jobs()] == light.done


def test_a_dry_run_shows_the_jobs_and_runs_none(tmp_path: Path, light: Light) -> None:
    shown = call(tmp_path, "--dry-run")
    assert shown.exit_code == 0
    assert "3 cells: 3 missing; " in shown.stdout
    numbers = [int(line.split()[0]) for line in shown.stdout.splitlines()[1:]]
    after = re.findall(r"\(after ([\d, ]+)\)$", shown.stdout, re.MULTILINE)
    assert numbers == list(range(1, len(numbers) + 1))
    assert "(after " in shown.stdout
    assert {int(one) for part in after for one in part.split(", ")} <= set(numbers)
    listed = json.loads(call(tmp_path, "--dry-run", "--json").stdout)
    methods = [job["request"]["method"] for job in listed["jobs"] if job["until"] == "result"]
    assert methods == ["popularity", "filter", "tracer"]
    assert (light.done, (tmp_path / "cache" / "sweeps").exists()) == ([], False)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--executor", "locl"), "did you mean local"),
        (("--only", "*/nothing/*"), "no cell of the grid fits */nothing/*"),
        (("--processes", "0"), "--processes"),
    ],
)
def test_wrong_calls_are_refused(tmp_path: Path, light: Light, words: tuple[str, ...], part: str) -> None:
    result = call(tmp_path, *words)
    assert result.exit_code == 2
    assert part in result.stderr
