"""Reads grid files: values as lists, seed ranges, groups, patterns and files expanded, and every fault with its place.

Faults are collected rather than raised, so that a user sees all of them at once. What has a wrong shape passes
unchanged: the models report it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.config import one_of, parse, plain_yaml
from genrec_unlearn_bench.errors import BenchError, ConfigError, UnknownName
from genrec_unlearn_bench.evaluation.suites import measurements, suites
from genrec_unlearn_bench.grid.spec import GRIDS, GROUPS, Axes, GridSpec, find_grid, read_content
from genrec_unlearn_bench.pipeline.resolve import Catalogue
from genrec_unlearn_bench.registry import Entry, methods

NAMED = ("task", "method", "backbone", "suite")
"""Axes whose values are registered names."""
DERIVED = ("dataset", "kind")
"""What a match may name besides axes: the task's dataset and its kind of concept."""
FIELD_SETS = ("method_set", "backbone_set", "sid_set", "measure_set")
VARIED_SETTINGS = ("encoder", "threads", "oracle_seeds", "shadows")
EMPTY = "should have at least 1 item after validation, not 0"
MAX_SEEDS = 10_000

Place = tuple[str | int, ...]
"""Keys and positions that lead to a value of the file."""


def read_grid(place: str, data_dir: Path | None = None) -> GridSpec:
    """Read the grid of a file, or the ready one of that name.

    Args:
        data_dir: Where imported datasets lie, for tasks on them.

    Raises:
        UnknownName: There is no such grid.
        ConfigError: The file is no grid; all faults at once, each with its place.
    """
    path = find_grid(place)
    reader = _GridReader(read_content(path), path.resolve().parent, data_dir)
    try:
        spec = parse(GridSpec, reader.normalised(), where=str(path))
    except ConfigError as fault:
        raise ConfigError(reader.all_faults(fault.faults), where=str(path)) from None
    if reader.faults:
        raise ConfigError(reader.all_faults(()), where=str(path))
    return spec


def groups(known: Mapping[str, Entry] | None = None) -> dict[str, tuple[str, ...]]:
    """Groups of methods by name, in the order of ``bench ls methods`` or of the group's list."""
    known = methods() if known is None else known
    kinds = {name: "variant" if entry.variant_of else entry.kind for name, entry in known.items()}
    listed = plain_yaml((resources.files(GRIDS) / GROUPS).read_text(encoding="utf-8"))["methods"]
    out = {}
    for group, content in listed.items():
        if isinstance(content, dict):
            content = [name for name, kind in kinds.items() if kind == content["kind"]]
        out[group] = tuple(content)
    return out


class _GridReader:
    """Normalises one grid file for ``GridSpec``.

    Args:
        folder: The grid file's: paths of tasks and methods are relative to it.
        data_dir: Where imported datasets lie.
    """

    def __init__(self, content: Mapping[str, Any], folder: Path, data_dir: Path | None) -> None:
        self.faults: list[str] = []
        self._content = content
        self._folder = folder
        self._data_dir = data_dir
        self._catalogue = Catalogue()
        self._values: dict[str, list[Any]] = {}
        """Values of axes and varied fields, as matches name them."""

    def normalised(self) -> dict[str, Any]:
        """The content with every name expanded; afterwards ``faults`` holds what was wrong."""
        out = dict(self._content)
        if isinstance(out.get("axes"), dict):
            self._values = {
                name: list(field.default)
                for name, field in Axes.model_fields.items()
                if name not in out["axes"] and not field.is_required()
            }
            out["axes"] = {name: self._axis(name, value) for name, value in out["axes"].items()}
        if "vary" in out:
            out["vary"] = self._vary(out["vary"])
        for kind, normalise in (("exclude", self._exclude), ("overrides", self._override)):
            if isinstance(out.get(kind), list):
                entries = enumerate(out[kind])
                out[kind] = [normalise(index, entry) if isinstance(entry, dict) else entry for index, entry in entries]
        return out

    def all_faults(self, of_models: Sequence[str]) -> list[str]:
        """Faults found here and by the models, with places as in the file."""
        # In the file a match of `exclude` stands without the level that the model gives it.
        found = [*self.faults, *(re.sub(r"^(exclude\.\d+)\.where", r"\1", fault) for fault in of_models)]
        # A list that lost its faulty entries is then also too short, which would only distract.
        reported = tuple(fault.partition(": ")[0] for fault in found if EMPTY not in fault)
        return [
            fault
            for fault in found
            if EMPTY not in fault or not any(place.startswith(fault.partition(": ")[0]) for place in reported)
        ]

    def _fault(self, place: Place, fault: str | BenchError) -> None:
        text = fault if isinstance(fault, str) else "; ".join(filter(None, (fault.what, fault.hint)))
        self.faults.append(f"{'.'.join(map(str, place))}: {text}")

    def _axis(self, name: str, value: Any) -> Any:
        """All values of an axis, each once; remembered for the matches on it."""
        before = len(self.faults)
        found = self._entries(("axes", name), name, value)
        if found is not None and len(self.faults) == before:
            self._values[name] = self._displayed(name, found)
            if name == "task":
                specs = [self._catalogue.task(each, self._data_dir) for each in found]
                self._values["dataset"] = [spec.dataset for spec in specs]
                self._values["kind"] = [spec.concept.kind for spec in specs]
        return value if found is None else found

    def _entries(self, place: Place, axis: str, value: Any, on_axis: Sequence[Any] | None = None) -> list[Any] | None:
        """A value or a list as a list, ranges and names expanded; None where it has no such shape.

        Args:
            on_axis: For a match, the values of the axis, by which its patterns go.
        """
        if isinstance(value, dict):
            return None
        out: list[Any] = []
        for here, entry in _listed(place, value):
            if axis == "seed":
                out += self._seeds(here, entry)
            elif axis == "measure":
                out.append(self._measure(here, entry))
            elif axis in NAMED and not isinstance(entry, str):
                self._fault(here, f"a name is expected (got {entry!r})")
            elif axis in NAMED:
                try:
                    out += self._expand(axis, entry) if on_axis is None else self._expand_on(axis, entry, on_axis)
                except BenchError as fault:
                    self._fault(here, fault)
            else:
                out.append(entry)
        return list({(type(entry), repr(entry)): entry for entry in out}.values())

    def _seeds(self, place: Place, entry: Any) -> list[int]:
        """One seed, or a half-open range: ``0:5`` is 0, 1, 2, 3, 4, as in Python."""
        if type(entry) is int and entry >= 0:
            return [entry]
        found = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", str(entry))
        if found is None:
            self._fault(place, f"a seed or a range such as 0:5 is expected (got {entry!r})")
            return []
        seeds = range(int(found[1]), int(found[2]))
        if not 0 < len(seeds) <= MAX_SEEDS:
            self._fault(place, f"the range {entry!r} holds {f'more than {MAX_SEEDS}' if seeds else 'no'} seeds")
            return []
        return list(seeds)

    def _measure(self, place: Place, entry: Any) -> Any:
        """Names of measurements, given as a list or joined by +, as one string."""
        names = entry.split("+") if isinstance(entry, str) else entry
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._fault(place, f"names of measurements are expected, as a list or joined by + (got {entry!r})")
            return ""
        known = list(measurements())
        for name in names:
            if name and name not in known:
                self._fault(place, UnknownName("measurement", name, known))
        return "+".join(name for name in known if name in names)

    def _vary(self, value: Any) -> Any:
        """Blocks of varied fields; fields alone are one block."""
        blocks = value if isinstance(value, list) else [value]
        out = []
        for index, block in enumerate(blocks):
            place: Place = ("vary", index) if isinstance(value, list) else ("vary",)
            if not isinstance(block, dict):
                return value
            if {"fields", "where", "plain"} & set(block):
                place = (*place, "fields")
            else:
                block = {"fields": block}
            if isinstance(block.get("fields"), dict):
                fields = {name: each if isinstance(each, list) else [each] for name, each in block["fields"].items()}
                for name, values in fields.items():
                    self._varied((*place, name), str(name), values)
                block = {**block, "fields": fields}
            out.append(block)
        # Matches may name varied fields, so all of these have to be known first.
        return [
            {**block, "where": self._where(("vary", index, "where"), block["where"])} if "where" in block else block
            for index, block in enumerate(out)
        ]

    def _varied(self, place: Place, name: str, values: list[Any]) -> None:
        head, _, tail = name.partition(".")
        if not (head in FIELD_SETS and tail) and name not in VARIED_SETTINGS:
            known = [*(f"{each}.{tail or 'FIELD'}" for each in FIELD_SETS), *VARIED_SETTINGS]
            self._fault(place, UnknownName("field", name, known))
        if len({repr(value) for value in values}) < len(values):
            self._fault(place, "a value stands twice")
        self._values[name] = [*self._values.get(name, []), *values]

    def _exclude(self, index: int, entry: dict[str, Any]) -> dict[str, Any]:
        where = {name: value for name, value in entry.items() if name != "why"}
        why = {"why": entry["why"]} if "why" in entry else {}
        return {"where": self._where(("exclude", index), where), **why}

    def _override(self, index: int, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "where": self._where(("overrides", index, "where"), entry.get("where"))}

    def _where(self, place: Place, where: Any) -> Any:
        """A match, its values expanded like those of the axes it names."""
        if not isinstance(where, dict):
            return where
        known = list(dict.fromkeys((*Axes.model_fields, *DERIVED, *self._values)))
        out = {}
        for name, value in where.items():
            if name in known:
                out[name] = self._matched((*place, name), str(name), value)
            else:
                hint = _suggestion(str(name), known) or f"; known: {', '.join(known)}"
                self._fault((*place, name), f"unknown axis{hint}")
        return out

    def _matched(self, place: Place, axis: str, value: Any) -> list[Any]:
        """Values of an axis that a match selects; one that is not on the axis is a fault."""
        on_axis = self._values.get(axis)
        if on_axis is None:
            # The axis itself is faulty or missing, which is reported already.
            return [None]
        if isinstance(value, dict):
            self._fault(place, f"a value or a list of values is expected (got {value!r})")
            return [None]
        out: list[Any] = []
        for here, entry in _listed(place, value):
            before = len(self.faults)
            matched = [each for each in self._entries(here, axis, entry, on_axis) or [] if each in on_axis]
            if len(self.faults) == before and not matched:
                texts = [str(each) for each in on_axis]
                hint = _suggestion(str(entry), texts) or f", which has {', '.join(texts)}"
                self._fault(here, f"{entry!r} is not on the axis{hint}")
            out += matched
        return list(dict.fromkeys(out)) if all(isinstance(each, str | int | float) for each in out) else out

    def _expand(self, axis: str, text: str) -> tuple[str, ...]:
        """The names that one entry of an axis stands for, as a request gives them. Raises BenchError."""
        if axis == "method":
            return self._methods(text)
        if axis == "task":
            return self._tasks(text)
        known = backbones() if axis == "backbone" else suites()
        return tuple(known) if (axis, text) == ("backbone", "all") else _matching(axis, text, known)

    def _expand_on(self, axis: str, text: str, on_axis: Sequence[Any]) -> Sequence[Any]:
        if text in on_axis:
            return [text]
        if _is_pattern(text):
            return [each for each in on_axis if fnmatchcase(str(each), text)] or [text]
        if axis in ("method", "task", "backbone") and (text[:1] == "@" or text == "all" or "." in text):
            return self._displayed(axis, self._expand(axis, text))
        return [text]

    def _methods(self, text: str) -> tuple[str, ...]:
        known = self._catalogue.methods()
        if text.startswith("@"):
            found = {f"@{name}": members for name, members in groups(known).items()}
            return found[one_of("group", text, found)]
        if ".py" in text:
            place, _, name = text.rpartition(":") if not text.endswith(".py") else (text, "", "")
            path = f"{(self._folder / Path(place).expanduser()).resolve()}{f':{name}' if name else ''}"
            self._catalogue.method(path)
            return (path,)
        return _matching("method", text, known)

    def _tasks(self, text: str) -> tuple[str, ...]:
        if _is_pattern(text):
            return _matching("task", text, self._catalogue.tasks())
        if text.endswith((".yaml", ".yml")):
            text = str((self._folder / Path(text).expanduser()).resolve())
        self._catalogue.task(text, self._data_dir)
        return (text,)

    def _displayed(self, axis: str, values: Sequence[Any]) -> list[Any]:
        """Values as tables show them: a task or method from a file has the name that the file declares."""
        if axis == "task":
            return [self._catalogue.task(each, self._data_dir).name for each in values]
        return [self._catalogue.method(each).name for each in values] if axis == "method" else list(values)


def _listed(place: Place, value: Any) -> list[tuple[Place, Any]]:
    """The entries of a list with their places, or the value alone with its own."""
    if isinstance(value, list):
        return [((*place, index), entry) for index, entry in enumerate(value)]
    return [(place, value)]


def _suggestion(text: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def _matching(kind: str, text: str, known: Mapping[str, object]) -> tuple[str, ...]:
    """Known names that a name or pattern matches. Raises UnknownName where there is none."""
    found = tuple(name for name in known if fnmatchcase(name, text)) if _is_pattern(text) else ()
    return found or (one_of(kind, text, known),)
