"""Grids from outside: what there is, and what one of them holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app

GRID = """
name: mine
description: A grid of the test's own.
axes: {task: [demo-brand, demo-interaction], method: [original, tracer, filter], backbone: [tiger, mor], seed: 0:2}
settings: {threads: 1}
vary:
  - where: {method: tracer, backbone: tiger}
    fields: {method_set.neighbours: [1, 3]}
exclude:
  - {kind: interaction, method: filter, why: it blocks items}
overrides:
  - where: {backbone: mor}
    set: {resources: {memory_mib: 900}}
    why: it is larger
"""


def bench(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "120"})


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(GRID, encoding="utf-8")
    return path


def test_a_card_counts_cells_and_says_what_is_left_out_and_why(grid: Path) -> None:
    content = json.loads(bench("show", str(grid), "--json").stdout)
    # Two tasks, two seeds: original 8, filter 4 as half is left out, tracer 4 plain on mor and 8 varied on tiger.
    assert content["cells"] == 24
    assert content["counts"]["method"] == {"original": 8, "tracer": 12, "filter": 4}
    assert content["counts"]["backbone"] == {"tiger": 14, "mor": 10}
    shown = " ".join(bench("show", str(grid)).stdout.split())
    assert "mine: a grid of 24 cells" in shown
    for words in (
        "A grid of the test's own.",
        "kind: interaction; method: filter it blocks items",
        "method_set.neighbours: 1, 3 method: tracer; backbone: tiger",
        "backbone: mor resources.memory_mib: 900 it is larger",
        "threads 1",
    ):
        assert words in shown


def test_ready_grids_are_shown_by_name() -> None:
    assert "reference-full: a grid of 36 cells" in bench("show", "reference-full").stdout
    assert bench("show", "reference-full", "--kind", "grid").exit_code == 0
    assert json.loads(bench("show", "smoke", "--json").stdout)["kind"] == "grid"


def test_a_broken_grid_is_told_with_all_its_faults(grid: Path) -> None:
    grid.write_text("name: mine\naxes: {task: demo-brnd, method: tracre}\n", encoding="utf-8")
    result = bench("show", str(grid))
    assert result.exit_code == 2
    assert "axes.task.0: unknown task 'demo-brnd'; did you mean demo-brand" in result.stderr
    assert "axes.method.0: unknown method 'tracre'; did you mean tracer" in result.stderr


def test_a_task_file_is_still_a_task(tmp_path: Path, grid: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("name: own\ndataset: demo\nconcept: {kind: brand}\ntitle: Mine\n", encoding="utf-8")
    assert json.loads(bench("show", str(path), "--json").stdout)["kind"] == "task"
    assert json.loads(bench("show", str(grid), "--json").stdout)["kind"] == "grid"
    path.write_text("axes: [", encoding="utf-8")
    assert bench("show", str(path)).exit_code == bench("show", str(tmp_path / "none.yaml")).exit_code == 2


def test_grids_are_listed_and_shown_without_torch() -> None:
    code = (
        "import sys\nfrom genrec_unlearn_bench.cli.main import app\n"
        "for words in (['ls', 'grids'], ['show', 'reference-full']):\n"
        "    app(words, standalone_mode=False)\n"
        "print([name for name in ('torch', 'transformers', 'pandas') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "[]"
