"""Which configuration of its method a run takes: ``default``, ``fixed`` or ``tuned`` (protocol, sec. 5)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.tuning.choice import (
    Choice,
    check_method,
    check_seed,
    choice_path,
    read_choice,
)
from genrec_unlearn_bench.tuning.fixed_rules import WHERE, shipped_fixed

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.registry import Entry


@dataclass(frozen=True)
class ConfigSource:
    """Where one run's method configuration comes from.

    Attributes:
        name: default, fixed or tuned; default for every reference row.
        fields: Fields of the method's configuration.
        where: Where they come from, as messages name it.
        note: What the record is to say about it.
        choice: The tuning behind it, where it is tuned.
        path: Its file.
        again: The command that tunes anew.
    """

    name: str = "default"
    fields: Mapping[str, Any] = field(default_factory=dict)
    where: str = "--set"
    note: str = ""
    choice: Choice | None = None
    path: Path = Path()
    again: str = ""


def config_source(request: RunRequest, entry: Entry, *, task: str, scale: str) -> ConfigSource:
    """The configuration source for a request. Raises UsageError or ProtocolMismatch where there is none that holds."""
    if entry.kind == "reference":
        return ConfigSource(fields=request.method_set)
    if request.method_set:
        raise UsageError(
            f"--ruleset {request.ruleset} fixes the configuration of {entry.name!r}, and --set changes it",
            hint="leave one of the two out",
        )
    return _fixed(entry) if request.ruleset == "fixed" else _tuned(request, entry, task, scale)


def _fixed(entry: Entry) -> ConfigSource:
    rules = shipped_fixed().methods
    if entry.name in rules:
        return ConfigSource("fixed", rules[entry.name], f"{WHERE}, {entry.name}")
    if entry.variant_of in rules:
        # A variant changes something about its method, and should differ from it in nothing else.
        fields = {**rules[entry.variant_of], **entry.fields}
        note = f"not in the fixed ruleset: the entry of {entry.variant_of!r}, with the variant's own changes"
        return ConfigSource("fixed", fields, f"{WHERE}, {entry.variant_of}", note)
    return ConfigSource("fixed", where=WHERE, note="not in the fixed ruleset: the method's defaults")


def _tuned(request: RunRequest, entry: Entry, task: str, scale: str) -> ConfigSource:
    path = choice_path(request.tuned_dir, task=task, backbone=request.backbone, scale=scale, method=entry.name)
    command = _tune_command(request, scale=scale)
    if not path.is_file():
        raise UsageError(
            f"{entry.name!r} has not been tuned on {task}, {request.backbone}, {scale}", where=str(path), hint=command
        )
    choice = read_choice(path)
    again = f"tune again: {command}"
    check_method(choice, entry, path=path, hint=again)
    check_seed(choice, request.seed, path=path)
    note = (
        ""
        if choice.feasible
        else (f"no trial kept {choice.floor:.0%} of the original's retain NDCG@10 on validation; the nearest was taken")
    )
    return ConfigSource("tuned", choice.config, str(path), note, choice, path, again)


def _tune_command(request: RunRequest, *, scale: str) -> str:
    wanted = request.model_copy(update={"scale": scale, "method_set": {}})
    words = wanted.words("tune", "backbone", "scale", "data_dir", "encoder", "device")
    if request.tuned_dir != Path("tuned"):
        words += ["--tuned-dir", str(request.tuned_dir)]
    return shlex.join(words)
