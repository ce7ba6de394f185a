"""Results that exist for a cell, and how the stages behind them differ from those that would be made now."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.registry import REFERENCE_ROWS
from genrec_unlearn_bench.store.manifest import differences

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.stage import Stage
    from genrec_unlearn_bench.store.store import StageStore

_WHERE_IT_RUNS = frozenset({"--data-dir", "--device", "--threads", "--tuned-dir"})
"""Options of a command that do not say what is run."""


@dataclass(frozen=True, eq=False)
class StoredResult:
    """A result in a results folder, as far as a plan reads it.

    Attributes:
        asked: What was asked for, by the command in its record.
        stages: Name -> key of every stage that it was built from.
    """

    folder: Path
    key: str
    created: str
    asked: tuple[str, ...]
    stages: Mapping[str, str]


def stored_results(folder: Path, prefix: str) -> Sequence[StoredResult]:
    """Results in a folder, the newest first; those that cannot be read the readers of results report.

    Those of several cells share a prefix (another suite, another configuration of the method): what was asked for, by
    the command in the record, tells them apart.
    """
    found = []
    for place in folder.glob(f"{prefix}*"):
        try:
            content: dict[str, Any] = json.loads((place / RECORD).read_bytes())
            stages = {stage["name"]: stage["key"] for stage in content["stages"]}
            asked = asked_for(content.get("command", ""))
            found.append(StoredResult(place, content["key"], content["created"], asked, stages))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return sorted(found, key=lambda result: result.created, reverse=True)


def asked_for(command: str) -> tuple[str, ...]:
    """The options of a command that say what is run, sorted: the same for the same cell on any machine.

    A reference row has no configuration of a method, so it is the same row under every ruleset.
    """
    words = shlex.split(command)[2:]
    pairs = list(zip(words[::2], words[1::2], strict=False))
    ignored = _WHERE_IT_RUNS | ({"--ruleset"} if dict(pairs).get("--method") in REFERENCE_ROWS else set())
    return tuple(sorted(f"{name}={value}" for name, value in pairs if name not in ignored))


@dataclass(frozen=True)
class Difference:
    """A stage that differs from an earlier one of the same name.

    Attributes:
        fields: One line a field of the recipe; empty where the earlier recipe is no longer in the cache.
        then: The earlier key.
        now: The key it would have.
        of: Folder of the earlier stage, where it does not belong to a result of the cell.
    """

    stage: str
    fields: tuple[str, ...]
    then: str
    now: str
    of: str = ""

    @property
    def sentence(self) -> str:
        """The difference in one line."""
        if not self.fields:
            return f"{self.stage}: made from something else, which is no longer in the cache"
        rest = len(self.fields) - 1
        return f"{self.stage}: {self.fields[0]}" + (f" and {rest} more" if rest else "")


def first_difference(stages: Mapping[str, Stage], result: StoredResult, store: StageStore) -> Difference | None:
    """The first stage, upstream first, whose key is not the one that the result was built from; None if all agree."""
    for label, stage in stages.items():
        then = result.stages.get(label) or result.stages.get(stage.title)
        if then is not None and then != stage.key:
            recipe = store.recipe(stage.name, then)
            fields = differences(recipe, stage.recipe) if recipe is not None else {}
            return Difference(label, _lines(fields), then, stage.key)
    return None


def nearest_difference(stage: Stage, store: StageStore) -> Difference | None:
    """A missing stage compared with the stored one of its name that has the fewest differences."""
    found = [(differences(recipe, stage.recipe), key) for key, recipe in store.recipes(stage.name)]
    if not found:
        return None
    fields, key = min(found, key=lambda one: (len(one[0]), one[1]))
    return Difference(stage.title, _lines(fields), key, stage.key, str(store.folder(stage.name, key)))


def _lines(fields: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}: {values}" for name, values in fields.items())
