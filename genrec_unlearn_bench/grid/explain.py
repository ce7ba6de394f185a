"""Results that exist for a cell, and how the stages behind them differ from those that would be made now."""

from __future__ import annotations

import json
import os
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.pipeline.results import RECORD, folder_prefix, looks_whole, row_folder
from genrec_unlearn_bench.registry import REFERENCE_ROWS
from genrec_unlearn_bench.store.manifest import differences

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.record import Cell
    from genrec_unlearn_bench.pipeline.stage import Stage
    from genrec_unlearn_bench.store.store import StageStore

_WHERE_IT_RUNS = frozenset({"--data-dir", "--device", "--threads", "--tuned-dir"})
"""Options of a command that do not say what is run."""


@dataclass(frozen=True, eq=False)
class StoredResult:
    """A result in a results folder, as far as a plan reads it.

    Attributes:
        stages: Name -> key of every stage that it was built from.
    """

    folder: Path
    key: str
    created: str
    command: str
    stages: Mapping[str, str]


class ResultIndex:
    """Results folders, each listed once."""

    def __init__(self) -> None:
        self._names: dict[Path, dict[str, list[str]]] = {}
        self._read: dict[tuple[Path, str], dict[tuple[str, ...], list[StoredResult]]] = {}

    def find(self, root: Path, cell: Cell, key: str) -> Path | None:
        """Folder of the complete result of that key; None where there is none."""
        folder, prefix = row_folder(root, cell), folder_prefix(cell)
        name = f"{prefix}{key[:10]}"
        if name not in self._listed(folder).get(prefix, ()) or not looks_whole(folder / name):
            return None
        return folder / name

    def of_cell(self, root: Path, cell: Cell, command: str) -> Sequence[StoredResult]:
        """Results of the cell under any key, the newest first.

        Folders of several cells share a prefix (another suite, another configuration of the method): what was asked
        for, by the command in the record, tells them apart.
        """
        folder, prefix = row_folder(root, cell), folder_prefix(cell)
        if (folder, prefix) not in self._read:
            found: dict[tuple[str, ...], list[StoredResult]] = defaultdict(list)
            for name in self._listed(folder).get(prefix, ()):
                result = _read(folder / name)
                if result is not None:
                    found[_asked(result.command)].append(result)
            for results in found.values():
                results.sort(key=lambda result: result.created, reverse=True)
            self._read[folder, prefix] = dict(found)
        return self._read[folder, prefix].get(_asked(command), ())

    def _listed(self, folder: Path) -> Mapping[str, list[str]]:
        if folder not in self._names:
            found: dict[str, list[str]] = defaultdict(list)
            # A folder that is not there, or not to be read, holds no result for this user.
            with suppress(OSError):
                for name in os.listdir(folder):
                    if not name.startswith("."):
                        found[f"{name.rpartition('-')[0]}-"].append(name)
            self._names[folder] = dict(found)
        return self._names[folder]


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
    """The first stage whose key is not the one that the result was built from; None where all recorded ones agree.

    Args:
        stages: The cell's stages by label, upstream first.
    """
    for label, stage in stages.items():
        then = result.stages.get(label) or result.stages.get(stage.title)
        if then is not None and then != stage.key:
            recipe = store.recipe(stage.name, then)
            fields = _fields(recipe, stage.recipe) if recipe is not None else ()
            return Difference(label, fields, then, stage.key)
    return None


def nearest_difference(missing: Sequence[Stage], store: StageStore) -> Difference | None:
    """The first missing stage compared with the stored one of its name that has the fewest differences.

    Args:
        missing: Upstream first, so that the inputs of the first one are all there.
    """
    if not missing:
        return None
    stage = missing[0]
    found = [(len(differences(recipe, stage.recipe)), key, recipe) for key, recipe in store.recipes(stage.name)]
    if not found:
        return None
    _, key, recipe = min(found, key=lambda one: one[:2])
    fields = _fields(recipe, stage.recipe)
    return Difference(stage.title, fields, key, stage.key, str(store.folder(stage.name, key)))


def _fields(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}: {_value(then, name)} then, {_value(now, name)} now" for name in differences(then, now))


def _value(content: Mapping[str, Any], name: str) -> str:
    """The value of a dotted name; keys may contain dots themselves (files)."""
    if name in content:
        found = content[name]
        text = found if isinstance(found, str) else json.dumps(found)
        return text if len(text) <= 40 else f"{text[:37]}…"
    for head, inner in content.items():
        if name.startswith(f"{head}.") and isinstance(inner, Mapping):
            return _value(inner, name[len(head) + 1 :])
    return "absent"


def _read(folder: Path) -> StoredResult | None:
    """The result of a folder; None where it cannot be read, which the readers of results report."""
    try:
        content = json.loads((folder / RECORD).read_bytes())
        stages = {stage["name"]: stage["key"] for stage in content["stages"]}
        return StoredResult(folder, content["key"], content["created"], content.get("command", ""), stages)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _asked(command: str) -> tuple[str, ...]:
    """The options of a command that say what is run, sorted: the same for the same cell on any machine.

    A reference row has no configuration of a method, so it is the same row under every ruleset.
    """
    words = shlex.split(command)[2:]
    pairs = list(zip(words[::2], words[1::2], strict=False))
    ignored = _WHERE_IT_RUNS | ({"--ruleset"} if dict(pairs).get("--method") in REFERENCE_ROWS else set())
    return tuple(sorted(f"{name}={value}" for name, value in pairs if name not in ignored))
