"""One command in several processes: the first stores and speaks, the others compute along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.backbones.several import started

BENCH = "from genrec_unlearn_bench.cli.main import run; run()"


@pytest.mark.slow
def test_two_processes_make_one_result(tmp_path: Path) -> None:
    def arguments(name: str, results: str = "results") -> list[str]:
        options = {
            "--task": "demo-brand",
            "--method": "original",
            "--backbone": "mor",
            "--scale": "smoke",
            "--device": "cpu",
            "--set-backbone": "training.max_steps=21",
            "--oracle-seeds": "0",
            "--results-dir": str(tmp_path / name / results),
            "--cache-dir": str(tmp_path / name / "cache"),
        }
        return ["-c", BENCH, "run", *(part for pair in options.items() for part in pair)]

    (table, lines), (second_table, second_lines) = started(arguments("two"))
    assert "original" in table
    assert lines.count("\noriginal: ") == 1
    assert not second_table
    assert "original" not in second_lines
    # Nothing is computed again, nobody waits for a lock: everything is found by both.
    assert "result: from" in started(arguments("two"))[0][1]
    assert "original: from the cache" in started(arguments("two", "others"))[0][1]

    started(arguments("one"), processes=1)
    one, two = (_only(tmp_path / name / "results") for name in ("one", "two"))
    assert len(one["metrics"]) == len(two["metrics"]) > 0
    losses = [_losses(tmp_path / name / "results") for name in ("one", "two")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert not list((tmp_path / "two" / "cache").glob("unfinished/original/*"))


def _only(results: Path) -> Any:
    (path,) = results.rglob("result.json")
    return json.loads(path.read_text(encoding="utf-8"))


def _losses(results: Path) -> list[float]:
    (path,) = results.rglob("losses.jsonl")
    lines = [json.loads(line)["losses"] for line in path.read_text(encoding="utf-8").splitlines()]
    return [value for line in lines for name, value in sorted(line.items()) if name == "loss"]
