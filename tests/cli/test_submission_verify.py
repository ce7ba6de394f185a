"""``bench submission verify`` on the command line; the demo's re-run is replaced, as it is tested with the runner."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.reproduce.repeat import Repetition, compare
from genrec_unlearn_bench.submissions.bundle import pack
from genrec_unlearn_bench.submissions.publish import publish_results
from genrec_unlearn_bench.submissions.submit import submit
from tests.submissions.honest import known_leaderboard, prepared, request


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = prepared(tmp_path_factory.mktemp("verify"))
    known_leaderboard(root)
    return root


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    return submit(**request(home, out=tmp_path)).folder


def invoke(home: Path, path: Path, *words: str) -> Any:
    return CliRunner().invoke(
        app, ["submission", "verify", str(path), "--leaderboard", str(home / "leaderboard"), *words]
    )


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the re-run was asked for; ``change`` is done to the record that it gives."""
    asked: dict[str, Any] = {"change": lambda record: record}

    def repeat(record: RunRecord, **options: Any) -> Repetition:
        asked.update(options, record=record)
        # A run's own table has other bytes than its published form.
        fresh = record.model_copy(update={"per_user_digest": "f" * 64})
        return compare(record, asked["change"](fresh))

    monkeypatch.setattr("genrec_unlearn_bench.reproduce.repeat.repeat_record", repeat)
    return asked


def other_number(record: RunRecord) -> RunRecord:
    first, *rest = record.metrics
    return record.model_copy(update={"metrics": (first.model_copy(update={"value": 0.999}), *rest)})


def test_a_submission_that_is_reproduced(home: Path, folder: Path, demo: dict[str, Any]) -> None:
    done = invoke(home, folder, "--write")
    assert done.exit_code == 0, done.output
    assert "reproduced: 1 of 4 cells" in done.stdout
    assert "without a sandbox" not in done.stdout
    assert demo["record"].cell.task == "demo-brand"
    assert demo["record"].cell.seed == 0
    assert demo["method"] == str(folder / "method.py")
    assert demo["sandboxed"] is True
    written = json.loads((folder / "verification.json").read_text(encoding="utf-8"))
    assert written["badge"] == "reproduced"
    assert written["demo"]["matches"]
    again = invoke(home, folder, "--no-demo", "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["badge"] == "re-scored"
    assert json.loads(again.stdout)["content_digest"] == written["content_digest"]


def test_a_re_run_without_a_sandbox_says_so(home: Path, folder: Path, demo: dict[str, Any]) -> None:
    done = invoke(home, folder, "--no-sandbox", "--write", "--json")
    assert done.exit_code == 0, done.output
    assert demo["sandboxed"] is False
    assert json.loads((folder / "verification.json").read_text(encoding="utf-8"))["demo"]["sandboxed"] is False
    assert "1 of 4 cells, re-run without a sandbox" in invoke(home, folder, "--no-sandbox").stdout


def test_a_time_that_the_re_run_does_not_bear_out_is_flagged(home: Path, folder: Path, demo: dict[str, Any]) -> None:
    demo["change"] = lambda record: record.model_copy(
        update={"cost": record.cost.model_copy(update={"unlearn_seconds": 90.0})}
    )
    done = invoke(home, folder)
    assert done.exit_code == 0, done.output
    assert "unlearning took 90 s, and the record says 2.5 s" in " ".join(done.stdout.split())


def test_any_cell_of_a_submission_is_repeated_with_its_own_file(folder: Path, demo: dict[str, Any]) -> None:
    place = next((folder / "results" / "industrial-brand").rglob("result.json")).parent
    for words, sandboxed in (([], True), (["--no-sandbox"], False)):
        done = CliRunner().invoke(app, ["submission", "reproduce", str(place), *words])
        assert done.exit_code == 0, done.output
        assert demo["sandboxed"] is sandboxed
        assert demo["method"] == str(folder.resolve() / "method.py")


def test_a_demo_that_gives_other_numbers(home: Path, folder: Path, demo: dict[str, Any]) -> None:
    demo["change"] = other_number
    done = invoke(home, folder, "--demo", "--write")
    assert done.exit_code == 1
    assert not (folder / "verification.json").exists()
    assert "the demo cell gives other numbers" in done.output
    assert "hr@1 (forget, beam 10)" in done.output
    assert "0.999 now" in done.output


def test_withheld_columns_keep_the_lower_badge(home: Path, tmp_path: Path, demo: dict[str, Any]) -> None:
    folder = submit(**request(home, out=tmp_path, withhold=("influence",))).folder
    done = invoke(home, folder, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["demo"]["matches"]
    assert told["badge"] == "re-scored"
    assert "history.js" in told["self_reported"]


def test_a_claim_that_the_demo_does_not_bear_out(home: Path, folder: Path, demo: dict[str, Any]) -> None:
    assert invoke(home, folder, "--write").exit_code == 0
    demo["change"] = other_number
    assert invoke(home, folder).exit_code == 1


def test_an_archive_and_a_tree(home: Path, folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "mine.zip")
    assert invoke(home, tmp_path / "mine.zip", "--no-demo").exit_code == 0
    publish_results(home / "results", tmp_path / "tree")
    done = invoke(home, tmp_path / "tree", "--write", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["results"] == 4
    assert (tmp_path / "tree" / "verification.json").is_file()


def test_faults_are_listed_with_place_and_mend(home: Path, folder: Path) -> None:
    (folder / "notes.txt").write_text("x", encoding="utf-8")
    (folder / "method.py").unlink()
    done = invoke(home, folder, "--write")
    assert done.exit_code == 1
    for word in ("no place here", "where: notes.txt", "hint:", "added, removed or changed", "where: method.py"):
        assert word in done.output
    assert not (folder / "verification.json").exists()


@pytest.mark.parametrize(
    ("make", "words", "said", "code"),
    [
        (lambda path: None, [], "there is no such submission", 2),
        (lambda path: None, ["--write"], "there is no such submission", 2),
        (lambda path: path.mkdir(), ["--no-demo"], "there is no result", 1),
        (lambda path: path.write_bytes(b"PK"), [], "the archive cannot be read", 1),
        (lambda path: path.write_bytes(b"PK"), ["--write"], "--write needs a folder", 2),
    ],
)
def test_wrong_calls_are_said(home: Path, tmp_path: Path, make: Any, words: list[str], said: str, code: int) -> None:
    make(tmp_path / "thing")
    done = invoke(home, tmp_path / "thing", *words)
    assert done.exit_code == code, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_raw_results_are_told_from_published_ones(home: Path) -> None:
    done = invoke(home, home / "results", "--no-demo")
    assert done.exit_code == 1
    assert "there is a file that has no place here" in done.output


def test_publishing_names_every_broken_record_before_it_writes_any(home: Path, tmp_path: Path) -> None:
    results = Path(shutil.copytree(home / "results", tmp_path / "results"))
    call = ["submission", "publish", str(results), "--out", str(tmp_path / "tree"), "--withhold", "log-prob"]
    records = sorted(results.rglob("result.json"))
    whole = records[0].read_text(encoding="utf-8")
    records[0].write_text("{", encoding="utf-8")
    refused = CliRunner().invoke(app, call)
    assert refused.exit_code != 0
    assert not (tmp_path / "tree").exists()
    records[0].write_text(whole, encoding="utf-8")
    done = CliRunner().invoke(app, call)
    assert f"{len(records)} results published" in done.output
    tree = ["submission", "verify", str(tmp_path / "tree"), "--no-demo", "--leaderboard", str(home / "leaderboard")]
    assert "withheld" in CliRunner().invoke(app, tree).output
