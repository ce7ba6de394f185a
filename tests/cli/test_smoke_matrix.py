"""``bench smoke --matrix``: its defaults, its table, its JSON, and its exit codes; the engine is a stand-in.

The engine itself runs in ``make matrix``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.cli.smoke_matrix import TASKS
from genrec_unlearn_bench.pipeline import matrix
from genrec_unlearn_bench.pipeline.matrix import Tried
from genrec_unlearn_bench.registry import methods

FIVE = {"tiger", "letter", "etegrec", "p5sid", "mor"}


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Tried]:
    """Cells that were asked for; filters are refused for interactions, and rmu is broken on mor."""
    found: list[Tried] = []

    def run(
        names: Sequence[str], backbones: Sequence[str], tasks: Sequence[str], store: Any, progress: Any, processes: int
    ) -> list[Tried]:
        for name in names:
            for backbone in backbones:
                for task in tasks:
                    refused = name.startswith("filter") and task.endswith("interaction")
                    broken = (name, backbone) == ("rmu", "mor")
                    found.append(
                        Tried(
                            method=name,
                            backbone=backbone,
                            task=task,
                            status="broken" if broken else "refused" if refused else "ok",
                            seconds=1.0,
                            faults=("the original was changed",) if broken else (),
                        )
                    )
        return found

    monkeypatch.setattr(matrix, "run_matrix", run)
    return found


def called(tmp_path: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["smoke", *words, "--cache-dir", str(tmp_path)])


def test_by_default_every_method_and_backbone_and_one_task_of_every_kind(tried: list[Tried], tmp_path: Path) -> None:
    called(tmp_path, "--matrix")
    shipped = {name for name, entry in methods().items() if entry.kind == "method" and not entry.variant_of}
    assert {cell.method for cell in tried} == shipped
    assert {cell.backbone for cell in tried} == FIVE
    assert {cell.task for cell in tried} == set(TASKS)
    assert len(tried) == len(shipped) * 20


def test_the_table_counts_by_cell(tried: list[Tried], tmp_path: Path) -> None:
    result = called(tmp_path, "--matrix", "--method", "tracer,filter", "--backbone", "tiger", "--backbone", "p5sid")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["tracer", "4", "ok", "4", "ok", "8"] in lines
    assert ["filter", "3", "ok", "1", "refused", "3", "ok", "1", "refused", "8"] in lines
    assert "16 cells" in result.stdout


def test_every_broken_cell_is_named(tried: list[Tried], tmp_path: Path) -> None:
    result = called(
        tmp_path, "--matrix", "--method", "rmu", "--backbone", "mor,tiger", "--task", "demo-item,demo-price"
    )
    assert result.exit_code == 1
    assert "2 of 4 cells are broken" in result.stderr
    assert "rmu on mor, demo-item: the original was changed" in result.stderr
    assert "rmu on mor, demo-price" in result.stderr


def test_json_has_every_cell(tried: list[Tried], tmp_path: Path) -> None:
    result = called(tmp_path, "--matrix", "--method", "tracer", "--task", "demo-item", "--json")
    cells = json.loads(result.stdout)["cells"]
    assert {cell["backbone"] for cell in cells} == FIVE
    assert {cell["status"] for cell in cells} == {"ok"}


def test_tasks_without_the_matrix_are_refused(tmp_path: Path) -> None:
    result = called(tmp_path, "--task", "demo-item")
    assert result.exit_code == 2
    assert "--matrix" in result.stderr


def test_an_unknown_name_is_refused_before_anything_runs(tmp_path: Path) -> None:
    assert called(tmp_path, "--matrix", "--method", "tracre").exit_code == 2
    assert called(tmp_path, "--matrix", "--task", "demo-bran").exit_code == 2
    assert called(tmp_path, "--matrix", "--backbone", "tigre").exit_code == 2
