"""Files of chosen configurations: what ``bench tune`` took for a method, and the ruleset ``fixed``.

A choice for one task and recommender is ``<folder>/<task>/<backbone>/<scale>/<method>.json``. The ruleset ``fixed`` has
one configuration of every method for all tasks and backbones; it ships as ``leaderboard/rulesets/fixed.yaml``, which
``bench tune --fixed FILE`` writes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.backbones.config import BackboneConfig
from genrec_unlearn_bench.config import StrictModel, parse, parse_yaml
from genrec_unlearn_bench.data.catalogue import read_yaml
from genrec_unlearn_bench.errors import ConfigError, ProtocolMismatch, UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.store.manifest import content_key, plain
from genrec_unlearn_bench.tuning.rule import FLOOR, LEVEL, NEAR_FLOOR, RULE, Trial, choose

WHERE = "rulesets/fixed.yaml"

HEADER = """\
# The ruleset `fixed`: one configuration of every method for all tasks and backbones. A method that is not listed runs
# with its defaults; fields that are not listed have their defaults; an entry without fields took its defaults.
# Chosen on validation alone, by the tuning rule (docs/protocol.md), where `chosen_on` says. Written by the command
#   bench tune --task {task} --backbone {backbone} --scale {scale} {seeds} --method NAMES --fixed FILE
"""


class Choice(StrictModel):
    """All trials of a method, the rule, and the one that it took."""

    schema_version: int = 1
    protocol_version: int
    suite_version: str
    created: str
    """UTC, ISO 8601."""
    task: str
    dataset_digest: str
    task_digest: str
    backbone: str
    backbone_digest: str
    scale: str
    encoder: str
    device: str
    """cpu or cuda."""
    method: str
    method_digest: str
    """blake2b-256 of the method's source file."""
    seeds: tuple[int, ...] = Field(min_length=1)
    """Tuning seeds; no result may be reported at one of them."""
    rule: str = RULE
    floor: float = FLOOR
    near_floor: float = NEAR_FLOOR
    level: float = LEVEL
    searched: tuple[str, ...]
    """Fields that were tried at several values; empty where there was nothing to tune."""
    space: int = Field(ge=1)
    """Size of the search space, the default included; one larger than the budget was tried in part."""
    original: Trial
    trials: tuple[Trial, ...] = Field(min_length=1)
    chosen: int = Field(ge=0)
    feasible: bool
    """Whether it keeps enough of the retain quality; if not, it is the nearest to that."""
    seconds: float
    command: str

    @property
    def config(self) -> dict[str, Any]:
        """The chosen configuration."""
        return self.trials[self.chosen].config


def choice_path(folder: Path, *, task: str, backbone: str, scale: str, method: str) -> Path:
    return folder / task / backbone / scale / f"{method}.json"


def write_choice(folder: Path, choice: Choice) -> Path:
    """Write a choice in place of an earlier one; returns its file. Raises StorageError."""
    path = choice_path(folder, task=choice.task, backbone=choice.backbone, scale=choice.scale, method=choice.method)
    text = json.dumps(choice.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)
    atomic_text(path, f"{text}\n", "--tuned-dir")
    return path


def read_choice(path: Path) -> Choice:
    """Read a choice. Raises ConfigError where it does not fit its schema or is not what the rule gives."""
    where, hint = str(path), "run `bench tune` again"
    try:
        content = dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError) as fault:
        raise ConfigError([f"it cannot be read: {fault}"], where=where, hint=hint) from None
    if content and (version := content.get("protocol_version")) != PROTOCOL_VERSION:
        what = f"the choice was made under protocol version {version}, this is version {PROTOCOL_VERSION}"
        raise ProtocolMismatch(what, where=where, hint=hint)
    choice = parse(Choice, content, where=where)
    if choose(choice.trials, choice.original) != (choice.chosen, choice.feasible):
        what = f"chosen: trial {choice.chosen} is not what the rule gives from the numbers of its trials"
        raise ConfigError([what], where=where, hint=f"{hint}; a choice is not edited by hand")
    return choice


def recommender_digest(backbone: BackboneConfig, sids: SidConfig) -> str:
    """blake2b-256 of the recommender's and the tokenizer's configuration."""
    return content_key(plain({"config": backbone, "sids": sids, "tokenizer": type(sids).__name__}))


def check_task(choice: Choice, task_digest: str, *, path: Path) -> None:
    """Raises ProtocolMismatch where the task has resolved to something else since."""
    if choice.task_digest != task_digest:
        raise ProtocolMismatch(
            f"the method {choice.method!r} was tuned on {choice.task!r} when it resolved to something else "
            f"(task digest {choice.task_digest[:12]}, now {task_digest[:12]})",
            where=str(path),
            hint="run `bench tune` again, on the data of this run",
        )


class ChosenOn(StrictModel):
    """Where the configurations were chosen: the same for all methods, or they would not be comparable."""

    task: str
    task_digest: str
    backbone: str
    scale: str
    seeds: tuple[int, ...]


class FixedRules(StrictModel):
    """The file of the ruleset ``fixed``."""

    protocol_version: int
    chosen_on: ChosenOn | None = None
    methods: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Method or variant -> the fields that differ from its defaults."""


@cache
def shipped_fixed() -> FixedRules:
    """The rules that ship with the package. Raises ConfigError for a broken file."""
    file = resources.files("genrec_unlearn_bench.leaderboard") / "rulesets" / "fixed.yaml"
    return parse_yaml(FixedRules, file.read_text(encoding="utf-8"), where=WHERE)


def update_fixed(path: Path, chosen: Sequence[tuple[Choice, dict[str, Any]]]) -> FixedRules:
    """Put choices, each with the fields that it changes, into a file of rules, which is made where there is none.

    Raises UsageError where not all of the file's choices were made on the same.
    """
    rules = FixedRules(protocol_version=PROTOCOL_VERSION)
    if path.is_file():
        rules = read_yaml(FixedRules, path, hint="give the path of a YAML file")
    places = [ChosenOn(**choice.model_dump(include=set(ChosenOn.model_fields))) for choice, _ in chosen]
    on = rules.chosen_on or places[0]
    if rules.protocol_version != PROTOCOL_VERSION or any(place != on for place in places):
        seeds = ", ".join(map(str, on.seeds))
        raise UsageError(
            f"the file holds choices made on {on.task}, {on.backbone}, {on.scale}, seeds {seeds} (protocol "
            f"{rules.protocol_version}); this is something else",
            where=str(path),
            hint="tune on the same, or give --fixed a new file and tune all methods into it",
        )
    methods = rules.methods | {choice.method: fields for choice, fields in chosen}
    rules = FixedRules(protocol_version=PROTOCOL_VERSION, chosen_on=on, methods=dict(sorted(methods.items())))
    seeds = " ".join(f"--seed {seed}" for seed in on.seeds)
    header = HEADER.format(task=on.task, backbone=on.backbone, scale=on.scale, seeds=seeds)
    content = yaml.safe_dump(rules.model_dump(mode="json"), sort_keys=False, width=110, default_flow_style=None)
    atomic_text(path, header + content, "--fixed")
    return rules
