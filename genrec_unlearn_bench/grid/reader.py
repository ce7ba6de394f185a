"""Reads grid files: groups, patterns and files expanded, matches checked, and every fault with its place at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.config import one_of, parse, plain_yaml
from genrec_unlearn_bench.errors import ConfigError, UnknownName, UsageError
from genrec_unlearn_bench.evaluation.suites import measurements, suites
from genrec_unlearn_bench.grid.spec import GRIDS, GROUPS, Axes, GridSpec, find_grid, read_content, seeds
from genrec_unlearn_bench.pipeline.resolve import Catalogue
from genrec_unlearn_bench.registry import Entry, methods


def read_grid(place: str, data_dir: Path | None = None) -> GridSpec:
    """Read the grid of a file, or the ready one of that name.

    Raises UnknownName, and ConfigError with all faults of the file, each with its place.
    """
    path = find_grid(place)
    names = Names(path.resolve().parent, data_dir)
    try:
        return parse(GridSpec, read_content(path), where=str(path), context=names)
    except ConfigError as fault:
        # In the file a match of `exclude` stands without the level that the model gives it.
        faults = [re.sub(r"^(exclude\.\d+)\.where", r"\1", one) for one in fault.faults]
        raise ConfigError(faults, where=str(path), hint=fault.hint) from None


def groups(known: Mapping[str, Entry] | None = None) -> dict[str, tuple[str, ...]]:
    """Groups of methods by name, in the order of ``bench ls methods`` or of the group's list."""
    known = methods() if known is None else known
    kinds = {name: "variant" if entry.variant_of else entry.kind for name, entry in known.items()}
    listed = plain_yaml((resources.files(GRIDS) / GROUPS).read_text(encoding="utf-8"))["methods"]
    return {
        group: tuple(
            [name for name, kind in kinds.items() if kind == content["kind"]] if isinstance(content, dict) else content
        )
        for group, content in listed.items()
    }


class Names:
    """What the names in one grid file stand for, and the values on its axes.

    Paths of tasks and methods are relative to ``folder``, the grid file's; imported datasets lie in ``data_dir``.
    """

    def __init__(self, folder: Path, data_dir: Path | None) -> None:
        self.values: dict[str, list[Any]] = {}
        """Values of axes and varied fields, as matches name them; those of axes once they are valid."""
        self._folder = folder
        self._data_dir = data_dir
        self._catalogue = Catalogue()

    def remember(self, axes: Axes) -> None:
        """Keep the values of the axes, of the tasks' datasets and of their kinds of concept."""
        tasks = [self._catalogue.task(each, self._data_dir) for each in axes.task]
        self.values |= {name: self._displayed(name, getattr(axes, name)) for name in Axes.model_fields}
        self.values |= {"dataset": [task.dataset for task in tasks], "kind": [task.concept.kind for task in tasks]}

    def expand(self, axis: str, text: Any) -> tuple[str, ...]:
        """The names that one entry of an axis stands for, as a request gives them. Raises UsageError."""
        known: Mapping[str, object] = {}
        if axis == "measure":
            return (_measurements(text),)
        if axis == "method":
            known = self._catalogue.methods()
            if text.startswith("@"):
                found = {f"@{name}": members for name, members in groups(known).items()}
                return found[one_of("group", text, found)]
            if ".py" in text:
                place, _, name = text.rpartition(":") if not text.endswith(".py") else (text, "", "")
                path = f"{self._path(place)}{f':{name}' if name else ''}"
                self._catalogue.method(path)
                return (path,)
        elif axis == "task":
            known = self._catalogue.tasks()
            if not _is_pattern(text):
                text = self._path(text) if text.endswith((".yaml", ".yml")) else text
                self._catalogue.task(text, self._data_dir)
                return (text,)
        elif axis == "backbone":
            known = backbones()
            text = "*" if text == "all" else text
        elif axis == "suite":
            known = suites()
        return tuple(name for name in known if fnmatchcase(name, text)) or (one_of(axis, text, known),)

    def matched(self, axis: str, entry: Any) -> Sequence[Any]:
        """Values of an axis that an entry of a match selects. Raises UsageError where it selects none."""
        known = dict.fromkeys((*Axes.model_fields, "dataset", "kind", *self.values))
        one_of("axis", axis, known)
        on_axis = self.values.get(axis)
        # An axis that is faulty or missing is reported already.
        if on_axis is None or entry in on_axis:
            return [entry]
        if isinstance(entry, dict):
            raise UsageError(f"{axis}: a value or a list of values is expected (got {entry!r})")
        found: Sequence[Any] = []
        if axis == "seed":
            value = seeds(entry)
            found = value if isinstance(value, tuple) else [value]
        elif isinstance(entry, str) and _is_pattern(entry):
            found = [each for each in on_axis if fnmatchcase(str(each), entry)]
        elif isinstance(entry, str) and axis in ("task", "method", "backbone", "suite", "measure"):
            found = self._displayed(axis, self.expand(axis, entry))
        if not (found := [each for each in found if each in on_axis]):
            raise UsageError(f"{axis}: {entry!r} is not on the axis, which has {', '.join(map(str, on_axis))}")
        return found

    def _displayed(self, axis: str, values: Sequence[Any]) -> list[Any]:
        """Values as tables show them: a task or method from a file has the name that the file declares."""
        if axis == "task":
            return [self._catalogue.task(each, self._data_dir).name for each in values]
        return [self._catalogue.method(each).name for each in values] if axis == "method" else list(values)

    def _path(self, text: str) -> str:
        return str((self._folder / Path(text).expanduser()).resolve())


def _measurements(entry: Any) -> str:
    """Names of measurements, given as a list or joined by +, as one string."""
    names = entry.split("+") if isinstance(entry, str) else entry
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"names of measurements are expected, as a list or joined by + (got {entry!r})")
    known = list(measurements())
    for name in filter(None, names):
        if name not in known:
            raise UnknownName("measurement", name, known)
    return "+".join(name for name in known if name in names)


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text
