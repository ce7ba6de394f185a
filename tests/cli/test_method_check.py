"""``bench method check`` on the terminal and as JSON; the rules themselves are tested in tests/contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.contract import check as contract
from genrec_unlearn_bench.contract.rules import CheckReport, broken, checked, left_out

GOOD = (checked("name", (), "mine"), left_out("kind", "not in `kinds`", subject="item"))
BAD = broken("quiet", "it prints 'a [red]step[/red]'", hint="use progress.info(…)")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, object]]:
    """What the contract was asked for; it finds ``BAD`` in every file that is named so."""
    given: list[dict[str, object]] = []

    def check_method(text: str, **options: object) -> CheckReport:
        given.append({"text": text, **options})
        findings = (*GOOD, BAD) if "bad" in text else GOOD
        return CheckReport(method="mine", file=text, findings=findings, seconds=1.2)

    monkeypatch.setattr(contract, "check_method", check_method)
    return given


def check(*words: str) -> Result:
    return CliRunner().invoke(app, ["method", "check", *words])


def test_a_sound_method_gets_a_line_a_rule(called: list[dict[str, object]]) -> None:
    done = check("mine.py")
    assert done.exit_code == 0
    assert "  ✓ name  (mine)" in done.stdout.splitlines()
    assert "  – kind-item  (not in `kinds`)" in done.stdout.splitlines()
    assert "1 kept, 0 broken, 1 left out, in 1 s: the contract holds" in done.stdout


def test_a_broken_rule_is_shown_with_its_hint(called: list[dict[str, object]]) -> None:
    done = check("bad.py")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    place = lines.index("  ✗ quiet")
    assert lines[place + 1].strip() == "it prints 'a [red]step[/red]'"
    assert lines[place + 2].strip() == "hint: use progress.info(…)"
    assert "not yet" in lines[-1]


def test_json_is_for_scripts(called: list[dict[str, object]]) -> None:
    done = check("bad.py", "--json")
    assert done.exit_code == 1
    content = json.loads(done.stdout)
    assert content["sound"] is False
    assert content["findings"][-1]["rule"] == "quiet"
    assert json.loads(check("mine.py", "--json").stdout)["sound"] is True


def test_options_reach_the_contract(called: list[dict[str, object]]) -> None:
    check("mine.py", "--set", "max_steps=2", "--backbone", "mor,p5sid", "--backbone", "tiger")
    check("mine.py")
    assert called[0]["fields"] == {"max_steps": 2}
    assert called[0]["on"] == ("mor", "p5sid", "tiger")
    assert called[1]["on"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.py"], "there is no method file"),
        (["trcaer"], "did you mean tracer"),
        (["retrain"], "is a reference row and has no contract"),
        (["npo", "--backbone", "tigre"], "did you mean tiger"),
    ],
)
def test_wrong_calls_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    done = check(*words, "--cache-dir", str(tmp_path))
    assert done.exit_code == 2
    assert said in done.output
    assert "Traceback" not in done.output
