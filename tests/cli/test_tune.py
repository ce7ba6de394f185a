"""``bench tune`` from outside: a table and a file a method, the fixed rules, and the run that reads a choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.config import parse_yaml
from genrec_unlearn_bench.tuning.choice import FixedRules, read_choice
from tests.cli.test_run import TINY


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tune")


def bench(root: Path, verb: str, method: str, *more: str) -> Result:
    settings = [word for name, value in TINY.items() for word in ("--set-backbone", f"{name}={value}")]
    places = ["--cache-dir", str(root / "cache"), "--threads", "1"]
    return CliRunner().invoke(app, [verb, "--task", "demo-brand", "--method", method, *settings, *places, *more])


TRACER = ("--set", "epochs=1", "--trials", "2")


@pytest.mark.slow
def test_a_choice_is_made_shown_written_and_run(root: Path) -> None:
    out = ("--tuned-dir", str(root / "tuned"))
    result = bench(root, "tune", "tracer", *TRACER, *out)
    assert result.exit_code == 0, result.output
    path = root / "tuned" / "demo-brand" / "tiger" / "smoke" / "tracer.json"
    assert str(path) in result.stdout
    choice = read_choice(path)
    assert len(choice.trials) == 2
    assert choice.seeds == (9000,)
    assert choice.config["epochs"] == 1, "what is --set holds in every trial"
    rows = [line.split() for line in result.stdout.partition("validation alone")[0].splitlines()]
    assert [row[0] for row in rows if row and row[0] in ("original", "default", "2")] == ["original", "default", "2"]
    assert sum("◀" in row for row in rows) == 1, "one row is marked, feasible or not"
    assert "trial 2/2: " in result.stderr, "progress goes to stderr"
    again = bench(root, "tune", "tracer", *TRACER, *out, "--json")
    content = json.loads(again.stdout)
    assert content[0]["file"] == str(path)
    assert content[0]["choice"]["seconds"] == choice.seconds, "nothing was computed again"
    run = ("--oracle-seeds", "0", "--results-dir", str(root / "results"), "--ruleset", "tuned")
    done = bench(root, "run", "tracer", *run, "--tuned-dir", str(root / "tuned"))
    assert done.exit_code == 0, done.output
    assert "ruleset tuned" in done.stdout.splitlines()[0]
    missing = bench(root, "run", "tracer", *run, "--tuned-dir", str(root / "elsewhere"))
    assert missing.exit_code == 2
    assert "bench tune --task demo-brand --method tracer" in missing.stderr


@pytest.mark.slow
def test_several_methods_go_into_one_file_of_rules(root: Path, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.yaml"
    result = bench(root, "tune", "filter,filter-history", "--tuned-dir", str(tmp_path), "--fixed", str(fixed))
    assert result.exit_code == 0, result.output
    assert result.stdout.count("1 of the 1 configurations") == 2
    assert parse_yaml(FixedRules, fixed.read_text(), where="fixed").methods == {"filter": {}, "filter-history": {}}


@pytest.mark.slow
def test_a_method_that_cannot_be_tuned_does_not_stop_the_others(root: Path, tmp_path: Path) -> None:
    result = bench(root, "tune", "original,filter", "--tuned-dir", str(tmp_path))
    assert result.exit_code == 2
    assert "reference row" in result.stderr
    assert (tmp_path / "demo-brand" / "tiger" / "smoke" / "filter.json").is_file()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--set", "lr=-1", "--set", "lamda_forget=1"), "did you mean 'lambda_forget'"),
        (("--backbone", "tiger,letter"), "this call names 2"),
        (("--method", "filter", "--set", "lr=1"), "this call names 2"),
        (("--trials", "13"), "--trials"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_call_is_told_before_any_work(tmp_path: Path, more: tuple[str, ...], words: str) -> None:
    result = bench(tmp_path, "tune", "tracer", *more)
    assert result.exit_code == 2
    assert words in result.output + result.stderr
    assert not (tmp_path / "cache").exists()


def test_an_unknown_ruleset_is_told(tmp_path: Path) -> None:
    result = bench(tmp_path, "run", "tracer", "--ruleset", "tunned")
    assert result.exit_code == 2
    assert "did you mean tuned" in result.stderr


def test_its_help_has_two_examples() -> None:
    result = CliRunner().invoke(app, ["tune", "--help"])
    assert result.exit_code == 0
    assert result.output.count("$ bench ") == 2
