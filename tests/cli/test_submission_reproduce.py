from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from tests.pipeline.letter_world import TINY, write_world


def test_pieces_from_the_command_line(tmp_path: Path) -> None:
    world = write_world(tmp_path / "data")
    call = [
        "submission",
        "reproduce",
        "letter-instruments",
        "--data-dir",
        str(world),
        "--threads",
        "1",
        "--device",
        "cpu",
    ]
    call += ["--cache-dir", str(tmp_path / "cache"), "--results-dir", str(tmp_path / "results")]
    for name, value in TINY.items():
        call += ["--set", f"{name}={value}"]
    piece = CliRunner().invoke(app, [*call, "--minutes", "1e-9", "--test-rows", "10"])
    assert piece.exit_code == 0, piece.output
    assert "not finished: the same command goes on from here" in piece.stdout
    assert "10 of 60 test rows" in piece.stdout
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["record"]["finished"]
    assert found["reproduced"] is None
    assert Path(found["folder"], "reproduction.json").is_file()


def test_references_are_listed() -> None:
    assert "letter-instruments" in CliRunner().invoke(app, ["submission", "reproduce"]).stdout
    listed = json.loads(CliRunner().invoke(app, ["submission", "reproduce", "--json"]).stdout)
    assert [part["value"] for part in listed[0]["expected"]] == [0.0909, 0.0763, 0.1122, 0.0831]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["letter-instrumnts"], "did you mean letter-instruments"),
        (["results/demo-brand/tiger/tracer/smoke-seed0-abc"], "there is no run"),
        (["0123abcd"], "unknown reference '0123abcd'"),
        (
            ["results/0123abcd", "--set", "lr=1", "--minutes", "3"],
            "a run is repeated as it was, and --minutes and --set would",
        ),
        (["letter-instruments", "--minutes", "0"], "no time for a single step"),
        (["letter-instruments", "--set", "training.epochs"], "not of the form key=value"),
    ],
)
def test_wrong_calls_are_said(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["submission", "reproduce", *words])
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output
