"""A newcomer who follows CONTRIBUTING, and nothing else, ends with a row in the tables and a submission that passes.

The commands are read out of the guide. They are run as they stand, but for words that make the two long ones short:
three seeds of the whole demo take four minutes, of the smallest TIGER seconds.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from tests.pipeline.conftest import TINY

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "CONTRIBUTING.md"
HEADING = "## From a clone to a row, in ten minutes"

SHORTER = {
    "method check": ["--backbone", "tiger"],
    "run": [
        *(word for name, value in TINY.items() for word in ("--set-backbone", f"{name}={value}")),
        "--threads",
        "1",
    ],
    # The suite's own results of the demo are of the whole recommender, and a submission has to be of the same.
    "submission new": ["--leaderboard", "known"],
    "submission verify": ["--leaderboard", "known"],
}
"""Words added to a verb's call."""


def commands() -> list[list[str]]:
    """The commands of the guide's walk, in order."""
    section = GUIDE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.strip()]


def verb(words: list[str]) -> str:
    """Of a call of ``bench``, with its group."""
    return " ".join(words[1:3]) if words[1] in ("method", "submission") else words[1]


def test_the_walk_is_complete() -> None:
    verbs = [verb(words) for words in commands() if words[0] == "bench"]
    assert verbs == ["method new", "method check", "run", "leaderboard", "submission new", "submission verify"]


@pytest.mark.slow
def test_following_contributing_makes_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("known").mkdir()
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    said: dict[str, str] = {}
    for words in commands():
        if words[0] == "bench":
            done = CliRunner().invoke(app, [*words[1:], *SHORTER.get(verb(words), [])])
            assert done.exit_code == 0, f"{shlex.join(words)}\n{done.output}"
            said[verb(words)] = done.stdout
        else:
            assert words[:3] == ["python", "-m", "pytest"], words
            run = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=False)
            assert run.returncode == 0, run.stdout
    assert "the contract holds" in said["method check"]
    row = next(line for line in said["leaderboard"].splitlines() if line.startswith("| my-method |"))
    assert re.search(r"\| 0\.\d+ ± 0\.\d+", row)
    assert "over 3 seeds" in said["leaderboard"]
    found = json.loads(Path("leaderboard/submissions/my-method/verification.json").read_text(encoding="utf-8"))
    assert found["badge"] == "reproduced"
    # The row came about without the engine or its content knowing of it.
    folders = ("genrec_unlearn_bench", "methods", "tasks", "leaderboard", "tests")
    assert not [path for folder in folders for path in (ROOT / folder).rglob("*my[_-]method*")]
