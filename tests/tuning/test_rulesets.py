"""Which configuration a run takes, and every reason to refuse one before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import parse_yaml
from genrec_unlearn_bench.errors import ConfigError, ProtocolMismatch, UsageError
from genrec_unlearn_bench.pipeline import resolve as resolving
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, resolve
from genrec_unlearn_bench.tuning.choice import (
    ChosenOn,
    FixedRules,
    check_task,
    shipped_fixed,
    update_fixed,
    write_choice,
)
from tests.tuning.choices import choice_for, trial


def resolved_of(folder: Path, method: str = "tracer", **changes: Any) -> ResolvedRequest:
    fields: dict[str, Any] = {"ruleset": "tuned", "tuned_dir": folder, **changes}
    return resolve(RunRequest(task="demo-brand", method=method, **fields))


def with_rules(monkeypatch: pytest.MonkeyPatch, methods: dict[str, dict[str, Any]], on: ChosenOn | None = None) -> None:
    rules = FixedRules(protocol_version=PROTOCOL_VERSION, chosen_on=on, methods=methods)
    monkeypatch.setattr(resolving, "shipped_fixed", lambda: rules)


def test_a_tuned_run_takes_the_chosen_configuration(tmp_path: Path) -> None:
    write_choice(tmp_path, choice_for())
    resolved = resolved_of(tmp_path)
    assert resolved.method_config.model_dump(mode="json") == choice_for().config
    assert resolved.source.name == "tuned"
    assert resolved.source.note == ""
    assert resolved.source.choice is not None
    with pytest.raises(ProtocolMismatch, match="resolved to something else"):
        check_task(resolved.source.choice, "another", path=tmp_path)
    check_task(resolved.source.choice, "t", path=tmp_path)


def test_an_infeasible_choice_is_flagged(tmp_path: Path) -> None:
    choice = choice_for()
    trials = tuple(trial(one.config, 0.1, value) for one, value in zip(choice.trials, (0.1, 0.11), strict=True))
    write_choice(tmp_path, choice.model_copy(update={"trials": trials, "feasible": False}))
    assert "the nearest was taken" in resolved_of(tmp_path).source.note


def test_a_missing_choice_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has not been tuned") as told:
        resolved_of(tmp_path)
    assert told.value.hint == f"bench tune --task demo-brand --method tracer --scale smoke --tuned-dir {tmp_path}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": (0, 9000)}, "the seed 0 was used to tune"),
        ({"method_digest": "another"}, "changed after it was tuned"),
        ({"backbone_digest": "another"}, "another configuration of backbone"),
        ({"encoder": "minilm"}, "the encoder minilm"),
    ],
    ids=str,
)
def test_a_choice_that_does_not_hold_here_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    write_choice(tmp_path, choice_for(**change))
    with pytest.raises(UsageError, match=words) as told:
        resolved_of(tmp_path)
    assert told.value.hint


def test_a_choice_of_another_protocol_stops_with_its_own_exit_code(tmp_path: Path) -> None:
    write_choice(tmp_path, choice_for(protocol_version=PROTOCOL_VERSION + 1))
    with pytest.raises(ProtocolMismatch):
        resolved_of(tmp_path)


def test_a_tampered_configuration_is_told_with_all_its_faults(tmp_path: Path) -> None:
    choice = choice_for()
    config = {**choice.config, "lr": -1.0, "lamda_forget": 0.1, "batch_size": 0}
    path = write_choice(tmp_path, choice.model_copy(update={"trials": (choice.trials[0], trial(config, 0.1, 0.2))}))
    with pytest.raises(ConfigError) as told:
        resolved_of(tmp_path)
    assert told.value.where == str(path)
    assert sorted(fault.partition(":")[0] for fault in told.value.faults) == ["batch_size", "lamda_forget", "lr"]


def test_the_same_faults_through_set_and_through_the_fixed_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"lr": -1.0, "lamda_forget": 0.1}
    with_rules(monkeypatch, {"tracer": wrong})
    for changes in ({"ruleset": "fixed"}, {"method_set": wrong}):
        with pytest.raises(ConfigError) as told:
            resolve(RunRequest(task="demo-brand", method="tracer", **changes))
        assert len(told.value.faults) == 2
        assert told.value.where == ("rulesets/fixed.yaml, tracer" if "ruleset" in changes else "--set")


@pytest.mark.parametrize("name", ["fixed", "tuned"])
def test_set_and_a_ruleset_contradict_each_other(tmp_path: Path, name: str) -> None:
    write_choice(tmp_path, choice_for())
    with pytest.raises(UsageError, match="--set changes it"):
        resolved_of(tmp_path, ruleset=name, method_set={"lr": 1e-4})


@pytest.mark.parametrize("name", ["fixed", "tuned"])
def test_reference_rows_have_no_ruleset(tmp_path: Path, name: str) -> None:
    assert resolved_of(tmp_path, "original", ruleset=name).source.name == "default"


def test_fixed_takes_the_entry_the_entry_of_the_method_or_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    with_rules(monkeypatch, {"tracer": {"lr": 2e-4, "lambda_forget": 0.3}})
    listed = resolve(RunRequest(task="demo-brand", method="tracer", ruleset="fixed"))
    assert listed.method_config.model_dump()["lr"] == 2e-4
    assert listed.source.note == ""
    variant = resolve(RunRequest(task="demo-brand", method="tracer-no-mask", ruleset="fixed"))
    plain = resolve(RunRequest(task="demo-brand", method="tracer-no-mask"))
    assert variant.method_config.model_dump()["lr"] == 2e-4
    assert variant.method_config.model_dump()["mask"] == plain.method_config.model_dump()["mask"]
    assert "'tracer'" in variant.source.note
    absent = resolve(RunRequest(task="demo-brand", method="filter", ruleset="fixed"))
    assert absent.source.name == "fixed"
    assert "not in the fixed ruleset" in absent.source.note


def test_what_was_chosen_elsewhere_is_said_to_be_transferred(monkeypatch: pytest.MonkeyPatch) -> None:
    on = ChosenOn(task="demo-brand", task_digest="", backbone="tiger", scale="small", seeds=(9000,))
    with_rules(monkeypatch, {"tracer": {"lr": 2e-4}}, on)

    def note(method: str, backbone: str) -> str:
        return resolve(RunRequest(task="demo-brand", method=method, backbone=backbone, ruleset="fixed")).source.note

    assert note("tracer", "tiger") == ""
    assert note("tracer", "mor") == "transferred: chosen on demo-brand, tiger, small"
    assert note("tracer-no-mask", "mor").endswith("own changes; transferred: chosen on demo-brand, tiger, small")
    assert note("npo", "mor") == "not in the fixed ruleset: the method's defaults"


def test_without_choices_fixed_is_the_defaults_and_the_record_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with_rules(monkeypatch, {})
    resolved = resolve(RunRequest(task="demo-brand", method="tracer", ruleset="fixed"))
    assert resolved.source.name == "fixed"
    assert resolved.method_config == resolve(RunRequest(task="demo-brand", method="tracer")).method_config
    assert resolved.source.note == "not in the fixed ruleset: the method's defaults"


def test_choices_may_go_into_a_file_without_any(tmp_path: Path) -> None:
    file = tmp_path / "fixed.yaml"
    file.write_text(f"protocol_version: {PROTOCOL_VERSION}\nmethods: {{}}\n")
    update_fixed(file, [(choice_for(), {"lr": 1e-3})])
    assert parse_yaml(FixedRules, file.read_text(), where="here").methods == {"tracer": {"lr": 1e-3}}


def test_the_shipped_rules_are_rules_of_known_methods() -> None:
    rules = shipped_fixed()
    assert rules.protocol_version == PROTOCOL_VERSION, "choices of an earlier protocol came from other search spaces"
    assert bool(rules.methods) == (rules.chosen_on is not None)
    for name in rules.methods:
        assert resolve(RunRequest(task="demo-brand", method=name, ruleset="fixed")).source.name == "fixed"


def test_choices_go_into_a_file_of_rules_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "fixed.yaml"
    update_fixed(file, [(choice_for(), {"lr": 1e-3})])
    update_fixed(file, [(choice_for("filter", trials=(trial({}, 0.0, 0.2),), chosen=0), {})])
    text = file.read_text()
    assert text.startswith("# The ruleset `fixed`")
    assert "--task demo-brand --backbone tiger --scale smoke --seed 9000" in text
    rules = parse_yaml(FixedRules, text, where="here")
    assert rules.methods == {"filter": {}, "tracer": {"lr": 1e-3}}
    update_fixed(file, [(choice_for(), {"lr": 3e-5})])
    assert parse_yaml(FixedRules, file.read_text(), where="here").methods["tracer"] == {"lr": 3e-5}
    with pytest.raises(UsageError, match="made on demo-brand, tiger, smoke, seeds 9000"):
        update_fixed(file, [(choice_for(seeds=(9001,)), {})])
    assert parse_yaml(FixedRules, file.read_text(), where="here").methods["tracer"] == {"lr": 3e-5}


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "methods: {}", "protocol_version: 1\nmethods: {tracer: 3}"])
def test_a_broken_file_of_rules_is_told(text: str) -> None:
    with pytest.raises(ConfigError) as told:
        parse_yaml(FixedRules, text, where="here")
    assert told.value.where == "here"


def test_the_request_repeats_its_ruleset() -> None:
    request = RunRequest(task="demo-brand", method="tracer", ruleset="tuned", tuned_dir=Path("my choices"))
    assert "--ruleset tuned --tuned-dir 'my choices'" in request.command()
    assert "ruleset" not in RunRequest(task="demo-brand", method="tracer").command()


def test_numbers_survive_yaml() -> None:
    """``1e-05`` is text to YAML 1.1; rules must come back as numbers."""
    rules = shipped_fixed().model_copy(update={"methods": {"tracer": {"lr": 1e-05}}})
    text = yaml.safe_dump(rules.model_dump(mode="json"))
    assert FixedRules.model_validate(yaml.safe_load(text)).methods["tracer"]["lr"] == 1e-05
