from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.reproduce.reproduction import find_reference
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
    piece = CliRunner().invoke(app, [*call, "--minutes", "1e-9"])
    assert piece.exit_code == 0, piece.output
    assert "not finished: the same command goes on from here" in piece.stdout
    assert "60 test rows" in piece.stdout
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["record"]["finished"]
    assert found["reproduced"] is None
    assert Path(found["folder"], "reproduction.json").is_file()


def test_a_reference_of_ones_own_is_a_file(tmp_path: Path) -> None:
    content = find_reference("letter-instruments").model_dump(mode="json") | {"name": "mine"}
    content["config"]["training"] |= {"epochs": 1, "evaluations": 1, "valid_rows": 20}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(content))
    call = ["submission", "reproduce", str(file), "--data-dir", str(write_world(tmp_path / "data")), "--device", "cpu"]
    call += ["--cache-dir", str(tmp_path / "cache"), "--results-dir", str(tmp_path / "results"), "--minutes", "1e-9"]
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert Path(found["folder"]).parent == tmp_path / "results" / "reproductions" / "mine"
    assert found["record"]["config"]["training"]["epochs"] == 1
    file.write_text(yaml.safe_dump(content | {"index": "idx", "beam": 0}))
    assert "beam" in CliRunner().invoke(app, call).output
    file.write_text(yaml.safe_dump(content | {"index": "idx"}))
    refused = CliRunner().invoke(app, call)
    assert (refused.exit_code, "file of instruments-letter with semantic IDs" in refused.output) == (2, True)


def test_references_are_listed() -> None:
    assert "letter-instruments" in CliRunner().invoke(app, ["submission", "reproduce"]).stdout
    listed = json.loads(CliRunner().invoke(app, ["submission", "reproduce", "--json"]).stdout)
    assert [part["value"] for part in listed[0]["expected"]] == [0.0909, 0.0763, 0.1122, 0.0831]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["letter-instrumnts"], "did you mean letter-instruments"),
        (["results/demo-brand/tiger/tracer/smoke-seed0-abc"], "there is no run"),
        (["nowhere/mine.yaml"], "the file cannot be read"),
        (["results/abcd", "--set", "lr=1", "--minutes", "3"], "and --minutes and --set would"),
        (["letter-instruments", "--minutes", "0"], "no time for a single step"),
        (["letter-instruments", "--set", "training.epochs"], "not of the form key=value"),
    ],
)
def test_wrong_calls_are_said(words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["submission", "reproduce", *words])
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output
