"""Workflows and documents call the command line as it is; workflows are pinned, rights and foreign code kept apart."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperGroup

from genrec_unlearn_bench.cli.main import app

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTION = ROOT / "action.yml"
SCRIPTS = [ROOT / ".ci/run", ROOT / ".ci/submission"]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS += sorted((ROOT / "leaderboard").rglob("*.md"))


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def jobs(path: Path) -> dict[str, Any]:
    found = read(path)
    return {"action": {"steps": found["runs"]["steps"]}} if path == ACTION else found["jobs"]


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(path).values():
        yield from job["steps"]


def scripts(path: Path) -> Iterator[str]:
    yield from (step["run"] for step in steps(path) if "run" in step)


EVERY = pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)


def test_there_are_workflows() -> None:
    assert {path.name for path in WORKFLOWS} == {"ci.yml", "release.yml", "submission.yml", "submission-comment.yml"}


@EVERY
def test_actions_are_pinned_to_commits_with_their_version_beside_them(path: Path) -> None:
    used = [line for line in path.read_text(encoding="utf-8").splitlines() if re.match(r"\s*-?\s*uses:", line)]
    assert used
    for line in used:
        assert re.search(r"uses: (actions/[a-z-]+|pypa/gh-action-pypi-publish)@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), (
            line
        )


def test_an_action_is_pinned_to_one_commit_everywhere() -> None:
    texts = [path.read_text(encoding="utf-8") for path in [*WORKFLOWS, ACTION, ROOT / "docs/submit.md"]]
    pins = {pin for text in texts for pin in re.findall(r"uses: (actions/[a-z-]+)@([0-9a-f]{40})", text)}
    assert len(pins) == len({name for name, _ in pins})


@EVERY
def test_what_comes_from_outside_reaches_the_shell_as_a_variable(path: Path) -> None:
    for script in scripts(path):
        assert "${{" not in script


@EVERY
def test_shell_scripts_are_valid(path: Path) -> None:
    for script in scripts(path):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_the_scripts_they_call_are_valid_and_can_be_run(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert path.stat().st_mode & 0o111


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_rights_are_few_and_never_beside_foreign_code(path: Path) -> None:
    content = read(path)
    # YAML 1.1 reads the key `on` as a truth value.
    events = content.get("on", content.get(True))
    assert "pull_request_target" not in events
    assert content["permissions"] in ({}, {"contents": "read"})
    for job in content["jobs"].values():
        rights = {**content["permissions"], **job.get("permissions", {})}
        writes = [right for right, level in rights.items() if level == "write"]
        assert job["timeout-minutes"] <= 90
        text = yaml.safe_dump(job)
        assert "secrets." not in text
        if writes:
            # A comment on a pull request, from its finished checks alone; or an upload to PyPI, of a release alone.
            assert (writes, list(events)) in ((["pull-requests"], ["workflow_run"]), (["id-token"], ["release"]))
            assert all("run" not in step for step in job["steps"])
            assert "actions/checkout" not in text
        else:
            assert "github.token" not in text
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_a_submission_is_judged_by_the_base_branch() -> None:
    found = list(steps(ROOT / ".github/workflows/submission.yml"))
    places = {step["with"]["path"]: step["with"]["ref"] for step in found if "checkout" in step.get("uses", "")}
    assert "base.sha" in places["suite"]
    assert "head.sha" in places["sent"]
    for script in scripts(ROOT / ".github/workflows/submission.yml"):
        assert "sent/.ci" not in script
        assert "-C sent install" not in script


STUB = """#!/usr/bin/env bash
# A bench that publishes the names of submissions, and refuses those whose submission.yaml says so.
case $2 in
  site) mkdir -p "$6/tables"; ls "$4/submissions" > "$6/tables/main.md" ;;
  verify) echo "- looked at $(basename "$3")"; ! grep -q refuse "$3/submission.yaml" ;;
esac
"""


def submitted(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    stub = folder / "bench"
    stub.write_text(STUB, encoding="utf-8")
    stub.chmod(0o755)
    paths = [str(folder / "sent" / name) for name in names]
    return subprocess.run(
        [str(ROOT / ".ci/submission"), str(folder / "report.txt"), *paths],
        env={**os.environ, "BENCH": str(stub)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_submissions_script_says_what_changes_and_touches_nothing(tmp_path: Path) -> None:
    for name, content in (("good-one", "fine"), ("bad-one", "refuse"), ("bad name", "fine")):
        (tmp_path / "sent" / name).mkdir(parents=True)
        (tmp_path / "sent" / name / "submission.yaml").write_text(content, encoding="utf-8")
    before = sorted((ROOT / "leaderboard/submissions").iterdir())
    done = submitted(tmp_path, "good-one")
    assert done.returncode == 0, done.stderr
    assert "== good-one\nverified\n  - looked at good-one\n" in done.stdout
    assert "\n+good-one\n" in done.stdout
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == done.stdout
    assert sorted((ROOT / "leaderboard/submissions").iterdir()) == before
    for name, said in (("bad-one", "- does not pass"), ("bad name", "- this is no name of a submission")):
        refused = submitted(tmp_path, "good-one", name)
        assert refused.returncode == 1
        assert f"== {name}\n{said}" in refused.stdout
        assert "not made: a submission does not pass" in refused.stdout
    assert "== gone\nthe submission is taken back" in submitted(tmp_path, "gone").stdout
    assert submitted(tmp_path).returncode == 2


def calls(text: str) -> Iterator[list[str]]:
    """Calls of ``bench`` in shell text: whatever stands behind ``bench`` up to the end of the command."""
    for line in text.replace("\\\n", " ").splitlines():
        found = re.search(
            r'(?:^|[\s"/}])"?(?:\$\(BIN\)/|\.venv/bin/|\$)?bench"? (?=[a-z-])(.*)', line.partition(" #")[0]
        )
        if found and not line.lstrip().startswith("#"):
            words = shlex.split(found[1].partition("`")[0].replace("…", "X"), comments=True)
            end = next(
                (i for i, word in enumerate(words) if re.match(r"^(\||\|\||&&|;|>|2>|2>&1|<|&)", word)), len(words)
            )
            yield [word.rstrip(";") for word in words[:end]]


def fault(words: list[str]) -> str:
    """What is wrong with a call; empty where the verb and all its options exist."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while isinstance(command, TyperGroup) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in command.commands:
            return f"there is no verb {name!r}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}
    known |= {"--help"}
    wrong = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known]
    return f"{' '.join(words)}: no option {wrong[0]}" if wrong else ""


def test_calls_are_found_and_faults_in_them() -> None:
    text = 'run: "$bench" submission verify "$place" --out "$board" > x\nbench grid --resume && echo\n# bench nothing\n'
    assert list(calls(text)) == [["submission", "verify", "$place", "--out", "$board"], ["grid", "--resume"]]
    assert fault(["grid", "run", "smoke", "--processes", "2"]) == ""
    assert fault(["method", "new", "x", "--out", "y"]) == ""
    assert "no verb 'smoke'" in fault(["smoke"])
    assert "--metod" in fault(["run", "--metod", "x"])


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION, *SCRIPTS], ids=lambda path: path.name)
def test_workflows_call_verbs_and_options_that_exist(path: Path) -> None:
    text = "\n".join(scripts(path)) if path not in SCRIPTS else path.read_text(encoding="utf-8")
    assert list(filter(None, map(fault, calls(text)))) == []


def test_the_submissions_script_runs_what_a_person_runs() -> None:
    verbs = [" ".join(words[:2]) for words in calls((ROOT / ".ci/submission").read_text(encoding="utf-8"))]
    assert sorted(set(verbs)) == ["submission site", "submission verify"]


def test_the_action_checks_and_runs() -> None:
    verbs = [words[0] for script in scripts(ACTION) for words in calls(script)]
    assert verbs == ["doctor", "method", "run"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_call_verbs_and_options_that_exist(path: Path) -> None:
    found = re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    blocks = [text for language, text in found if language in ("", "bash", "sh", "console")]
    assert [told for block in blocks for told in map(fault, calls(block)) if told] == []


TEXTS = [
    *DOCUMENTS,
    ROOT / "Makefile",
    *(ROOT / "genrec_unlearn_bench").rglob("*.py"),
    *(ROOT / "methods").glob("*.py"),
]


def test_calls_quoted_in_a_sentence_hint_or_docstring_exist() -> None:
    """Between backquotes or after ``hint=``: the verb, and every option that is named with it."""
    wrong = []
    for path in TEXTS:
        for quoted in re.findall(
            r"`bench ([a-z][^`\n]*)`|hint=\"bench ([a-z][^\"\n]*)\"", path.read_text(encoding="utf-8")
        ):
            words = re.split(r"[\s,;]+", (quoted[0] or quoted[1]).replace("…", " "))
            told = fault([word for word in words if re.match(r"-{0,2}[A-Za-z.{]", word)])
            wrong += [f"{path.relative_to(ROOT)}: {told}"] if told else []
    assert wrong == []


def test_the_workflow_in_the_guide_is_one() -> None:
    text = (ROOT / "docs/submit.md").read_text(encoding="utf-8")
    block = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)[0]
    content = yaml.safe_load(block)
    assert content["permissions"] == {"contents": "read"}
    step = next(step for step in content["jobs"]["check"]["steps"] if "genrec_unlearn_bench" in step.get("uses", ""))
    assert set(step["with"]) <= set(read(ACTION)["inputs"])
    table = re.findall(r"^\| `([a-z-]+)` \|", text, flags=re.MULTILINE)
    assert table == list(read(ACTION)["inputs"])
