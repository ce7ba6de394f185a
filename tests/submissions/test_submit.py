"""Submitting: whole or not at all, every word kept, every fault at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from genrec_unlearn_bench.errors import BenchError, ConfigError, UsageError
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.plain_text import Refused
from genrec_unlearn_bench.submissions.spec import STATEMENTS, Submission
from genrec_unlearn_bench.submissions.submit import submit
from genrec_unlearn_bench.submissions.verification import trusted, write_verification
from tests.submissions.honest import METHOD, request


def test_what_is_written(home: Path, tmp_path: Path) -> None:
    done = submit(**request(home, out=tmp_path, withhold=("similarity",)))
    assert done.verification.passed
    assert done.verification.badge is Badge.RE_SCORED
    assert done.verification.withheld == ("similarity",)
    assert "similarity.first" in done.verification.self_reported
    assert {"hr@10", "ndcg@10", "mrr@10", "concept-rate@10", "history.js", "worst-case.hr@10"} <= set(
        done.verification.rescored
    )
    spec = done.spec
    assert spec.rulesets == ("fixed", "tuned")
    assert spec.seeds == (0, 1)
    assert spec.tuning.space == "declared"
    assert spec.affirmed == tuple(STATEMENTS)
    assert (done.folder / "method.py").read_text() == METHOD
    assert not (done.folder / "method.py").stat().st_mode & 0o111
    again = submit(**request(home, out=tmp_path / "again", withhold=("similarity",)))
    for path in done.folder.rglob("*.*"):
        assert (again.folder / path.relative_to(done.folder)).read_bytes() == path.read_bytes()


def test_words_are_kept_and_results_renewed(home: Path, tmp_path: Path) -> None:
    folder = submit(**request(home, out=tmp_path)).folder
    path = folder / "submission.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    content["paper"] = {"title": "A paper on 100 % forgetting", "arxiv": "2601.00001"}
    content["tuning"]["note"] = "two rounds\nby hand before"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    write_verification(folder, submit(**request(home, out=tmp_path / "other")).verification)
    done = submit(
        **request(home, out=tmp_path, words={"title": "Mine, second edition"}, affirm=False, tasks=("demo-brand",))
    )
    assert done.spec.title == "Mine, second edition"
    assert done.spec.paper is not None
    assert done.spec.paper.arxiv == "2601.00001"
    assert done.spec.tuning.note == "two rounds\nby hand before"
    assert done.spec.authors[0].name == "Ada Example"
    assert done.spec.rulesets == ("fixed",)
    assert not (folder / "verification.json").exists()
    assert not (folder / "results" / "industrial-brand").exists()
    assert not (folder / "manifests" / "industrial-brand.json").exists()


def test_missing_words_are_named_at_once(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        submit(**request(home, out=tmp_path, words={}, affirm=False))
    for word in ("--title", "--author", "--contact", "--licence", "--affirm-rules"):
        assert word in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_a_submission_that_would_not_pass_is_not_written(home: Path, tmp_path: Path) -> None:
    before = submit(**request(home, out=tmp_path)).folder
    kept = (before / "submission.yaml").read_bytes()
    with pytest.raises(BenchError, match="there is no result on the demo"):
        submit(**request(home, out=tmp_path, tasks=("industrial-brand",)))
    assert (before / "submission.yaml").read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_results_of_another_version_of_the_file_are_passed_over(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(METHOD + "\n# changed\n", encoding="utf-8")
    with pytest.raises(UsageError, match="4 of other versions of its file"):
        submit(**request(home, out=tmp_path, method=str(tmp_path / "mine.py")))


def test_wrong_calls(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reference row"):
        submit(**request(home, out=tmp_path, method="retrain"))
    with pytest.raises(UsageError, match="no result of the method 'tracer'"):
        submit(**request(home, out=tmp_path, method="tracer"))
    for name in ("../mine", "Mine", "mine/own", "", "a--b"):
        with pytest.raises(UsageError, match="is no name for a submission"):
            submit(**request(home, out=tmp_path / "out", name=name))
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "submission.yaml").write_text("title: [", encoding="utf-8")
    with pytest.raises(Refused, match="not plain YAML") as refusal:
        submit(**request(home, out=tmp_path))
    assert "mine/submission.yaml, line 1" in str(refusal.value.where)


def test_a_badge_is_believed_for_its_own_content_alone(home: Path, tmp_path: Path) -> None:
    done = submit(**request(home, out=tmp_path))
    assert trusted(done.folder) is None
    write_verification(done.folder, done.verification)
    believed = trusted(done.folder)
    assert believed is not None
    assert believed.badge is Badge.RE_SCORED
    content = json.loads((done.folder / "verification.json").read_text())
    (done.folder / "verification.json").write_text(json.dumps({**content, "passed": False}))
    assert trusted(done.folder) is None
    write_verification(done.folder, done.verification)
    with (done.folder / "method.py").open("a") as file:
        file.write("\n")
    assert trusted(done.folder) is None


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("name", "Mine Own", "name"),
        ("code", "http://a.org", "code"),
        ("code", 'https://a.org/"><script>', "code"),
        ("licence", "do what you like <b>", "licence"),
        ("authors", [], "authors"),
        ("authors", [{"name": "A", "orcid": "12"}], "orcid"),
        ("method", {"name": "mine"}, "method.file"),
        ("method", {"name": "mine", "file": "../mine.py"}, "method.file"),
        ("seeds", [], "seeds"),
        ("applause", 1, "unknown key"),
        ("contents", {"method.py": "abc"}, "contents"),
    ],
)
def test_submission_yaml_is_strict(home: Path, field: str, value: object, message: str) -> None:
    from genrec_unlearn_bench.config import parse

    content = yaml.safe_load((home / "submissions" / "mine" / "submission.yaml").read_text())
    parse(Submission, content, where="x")
    with pytest.raises(ConfigError, match=message):
        parse(Submission, {**content, field: value}, where="x")
