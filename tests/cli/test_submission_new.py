"""``bench submission new`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from tests.submissions.honest import prepared

WORDS = ["--title", "Mine", "--author", "Ada Example | A University", "--author", "Bo", "--contact", "ada@example.org"]
WORDS += ["--licence", "MIT", "--paper", "A paper | https://example.org/p", "--deviation", "none that we know"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("submit"))


def call(home: Path, out: Path, *words: str) -> list[str]:
    shared = ["submission", "new", "mine", "--method", str(home / "mine.py"), "--results-dir", str(home / "results")]
    return [*shared, "--leaderboard", str(home / "leaderboard"), "--out", str(out), *words]


def test_a_folder_an_archive_and_a_text(home: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, call(home, tmp_path, *WORDS, "--affirm-rules", "--withhold", "similarity,log-prob"))
    assert done.exit_code == 0, done.output
    for word in ("re-scored", "left to do", "bench submission verify", "withheld", "add code to submission.yaml"):
        assert word in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "mine.zip", "mine.PULL_REQUEST.md"}
    assert "Ada Example, A University; Bo" in (tmp_path / "mine.PULL_REQUEST.md").read_text(encoding="utf-8")
    again = CliRunner().invoke(app, call(home, tmp_path, "--json"))
    assert again.exit_code == 0, again.output
    told = json.loads(again.stdout)
    assert told["verification"]["passed"]
    assert told["verification"]["badge"] == "re-scored"
    assert told["results"] == 4
    assert Path(told["pull_request"]).is_file()


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        ([], "--affirm-rules", 2),
        ([*WORDS, "--affirm-rules", "--withhold", "ranks"], "unknown column family 'ranks'", 2),
        ([*WORDS, "--affirm-rules", "--task", "toys-price"], "no result of the method 'mine'", 2),
        ([*WORDS, "--affirm-rules", "--task", "industrial-brand"], "no result on the demo", 1),
    ],
)
def test_wrong_calls_are_said(home: Path, tmp_path: Path, words: list[str], said: str, code: int) -> None:
    done = CliRunner().invoke(app, call(home, tmp_path, *words))
    assert done.exit_code == code, done.output
    assert said in done.output
    assert "hint" in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "mine").exists()
