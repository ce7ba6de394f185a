"""The ruleset ``fixed``: one configuration of every method for all tasks and backbones.

Shipped as ``leaderboard/rulesets/fixed.yaml``, written by ``bench tune --fixed FILE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import StrictModel, parse_yaml
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.tuning.choice import Choice

WHERE = "rulesets/fixed.yaml"

HEADER = """\
# The ruleset `fixed`: one configuration of every method for all tasks and backbones. A method that is not listed runs
# with its defaults; fields that are not listed have their defaults; an entry without fields took its defaults.
# Chosen on validation alone, by the tuning rule (docs/tuning.md), where `chosen_on` says. Written by the command
#   bench tune --task {task} --backbone {backbone} --scale {scale} {seeds} --method NAMES --fixed FILE
"""


class ChosenOn(StrictModel):
    """What the configurations were chosen on: the same for all methods, or they would not be comparable."""

    task: str
    task_digest: str
    backbone: str
    scale: str
    seeds: tuple[int, ...]


class FixedRules(StrictModel):
    """The file."""

    protocol_version: int
    chosen_on: ChosenOn
    methods: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Method or variant -> the fields that differ from its defaults."""


@cache
def shipped_fixed() -> FixedRules:
    """The rules that ship with the package. Raises ConfigError for a broken file."""
    file = resources.files("genrec_unlearn_bench.leaderboard") / "rulesets" / "fixed.yaml"
    return parse_yaml(FixedRules, file.read_text(encoding="utf-8"), where=WHERE)


def update_fixed(path: Path, chosen: Sequence[tuple[Choice, dict[str, Any]]]) -> FixedRules:
    """Put choices into a file of rules, which is made where there is none.

    Args:
        chosen: Each choice with the fields in which it differs from the method's defaults.

    Raises:
        UsageError: The file holds choices that were made on something else.
    """
    rules = parse_yaml(FixedRules, path.read_text(encoding="utf-8"), where=str(path)) if path.is_file() else None
    methods = dict(rules.methods) if rules else {}
    for choice, fields in chosen:
        on = ChosenOn(
            task=choice.task,
            task_digest=choice.task_digest,
            backbone=choice.backbone,
            scale=choice.scale,
            seeds=choice.seeds,
        )
        if rules is not None and rules.methods and (rules.chosen_on, rules.protocol_version) != (on, PROTOCOL_VERSION):
            other = rules.chosen_on
            seeds = ", ".join(map(str, other.seeds))
            raise UsageError(
                f"the file holds choices made on {other.task}, {other.backbone}, {other.scale}, seeds {seeds}; this is "
                "something else",
                where=str(path),
                hint="tune on the same, or give --fixed a new file and tune all methods into it",
            )
        methods[choice.method] = fields
        rules = FixedRules(protocol_version=PROTOCOL_VERSION, chosen_on=on, methods=dict(sorted(methods.items())))
    if rules is None:
        raise UsageError("there is no choice to write", where=str(path))
    atomic_text(path, _text(rules), "--fixed")
    return rules


def _text(rules: FixedRules) -> str:
    on = rules.chosen_on
    seeds = " ".join(f"--seed {seed}" for seed in on.seeds)
    header = HEADER.format(task=on.task, backbone=on.backbone, scale=on.scale, seeds=seeds)
    content = rules.model_dump(mode="json")
    return header + yaml.safe_dump(content, sort_keys=False, width=110, default_flow_style=None)
