from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.reproduce.repeat import Repetition, compare
from genrec_unlearn_bench.reproduce.reproduction import find_reference
from genrec_unlearn_bench.submissions.spec import METHOD_FILE, SPEC
from tests.pipeline.letter_world import TINY, write_world

PUBLISHED = Path(__file__).parents[2] / "leaderboard/results"


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


@pytest.mark.parametrize("row", ["filter", "mine"])
def test_a_submissions_method_is_isolated_unless_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    """An installed method is trusted, and the submission's copy would be a second one."""
    run = tmp_path / "mine" / "results" / "run"
    shutil.copytree(next((PUBLISHED / "demo-brand" / "tiger" / "filter").glob("*-seed0-*")), run)
    text = (run / RECORD).read_text()
    (run / RECORD).write_text(text.replace('"method": "filter"', f'"method": "{row}"'))
    for name in (SPEC, METHOD_FILE):
        (tmp_path / "mine" / name).write_text("")
    given: dict[str, Any] = {}

    def repeat(record: RunRecord, **settings: Any) -> Repetition:
        given.update(settings)
        return compare(record, record)

    monkeypatch.setattr("genrec_unlearn_bench.reproduce.repeat.repeat_record", repeat)
    done = CliRunner().invoke(app, ["submission", "reproduce", str(run)])
    assert done.exit_code == 0, done.output
    own = {"method": str(tmp_path / "mine" / METHOD_FILE), "sandboxed": True}
    assert {name: given.get(name) for name in own} == (own if row == "mine" else dict.fromkeys(own))


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
