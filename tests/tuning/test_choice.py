"""Choices on disk: what is written is read again, and what was changed since is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.errors import ConfigError, ProtocolMismatch, UsageError
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.tuning.choice import read_choice, write_choice
from tests.tuning.choices import choice_for, trial


def test_a_choice_comes_back_as_it_was(tmp_path: Path) -> None:
    choice = choice_for()
    path = write_choice(tmp_path, choice)
    assert path == tmp_path / "demo-brand" / "tiger" / "smoke" / "tracer.json"
    assert read_choice(path) == choice
    assert choice.config["lr"] == 1e-3
    write_choice(tmp_path, choice)
    assert [entry.name for entry in path.parent.iterdir()] == ["tracer.json"], "no drafts are left"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chosen": 0}, "not what the rule gives"),
        ({"chosen": 7}, "not what the rule gives"),
        ({"feasible": False}, "not what the rule gives"),
        ({"trials": []}, "trials"),
        ({"nonsense": 1}, "nonsense: unknown key"),
        ({"seeds": "many"}, "seeds"),
    ],
    ids=str,
)
def test_a_choice_that_was_edited_is_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = write_choice(tmp_path, choice_for())
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match=words) as told:
        read_choice(path)
    assert told.value.where == str(path)


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_what_is_no_choice_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "tracer.json").write_text(text)
    with pytest.raises(ConfigError) as told:
        read_choice(tmp_path / "tracer.json")
    assert told.value.where == str(tmp_path / "tracer.json")


def test_a_choice_of_another_protocol_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = write_choice(tmp_path, choice_for(protocol_version=PROTOCOL_VERSION + 1))
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "a_field_of_the_future": 1}))
    with pytest.raises(ProtocolMismatch, match=f"version {PROTOCOL_VERSION + 1}"):
        read_choice(path)


def test_numbers_that_changed_change_the_choice(tmp_path: Path) -> None:
    choice = choice_for()
    better = trial(choice.trials[0].config, 0.0, 0.2)
    path = write_choice(tmp_path, choice.model_copy(update={"trials": (better, choice.trials[1])}))
    with pytest.raises(ConfigError, match="not what the rule gives"):
        read_choice(path)


def test_the_command_that_is_missing_names_the_cell() -> None:
    request = RunRequest(
        task="steam-price",
        method="tracer",
        backbone="letter",
        seed=3,
        data_dir=Path("my data"),
        tuned_dir=Path("here"),
        ruleset="tuned",
    )
    with pytest.raises(UsageError) as caught:
        resolve(request)
    words = shlex.split(caught.value.hint or "")
    assert words[:2] == ["bench", "tune"]
    pairs = list(zip(words[2::2], words[3::2], strict=True))
    assert pairs == [
        ("--task", "steam-price"),
        ("--method", "tracer"),
        ("--backbone", "letter"),
        ("--scale", "small"),
        ("--data-dir", "my data"),
        ("--tuned-dir", "here"),
    ]
