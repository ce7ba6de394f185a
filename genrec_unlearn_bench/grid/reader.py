"""Normalises the content of a grid file to what its models take: values as lists, seed ranges, groups and patterns.

Faults are collected rather than raised, so that a user sees all of them at once. What has a wrong shape passes
unchanged: the models report it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from genrec_unlearn_bench.backbones.catalogue import backbones
from genrec_unlearn_bench.config import StrictModel, parse, parse_yaml
from genrec_unlearn_bench.errors import BenchError, ConfigError, UnknownName
from genrec_unlearn_bench.evaluation.suites import measurements, suites
from genrec_unlearn_bench.grid.spec import GRIDS, GROUPS, GridSpec, find_grid, read_content
from genrec_unlearn_bench.pipeline.resolve import Catalogue
from genrec_unlearn_bench.registry import Entry, methods

NAMED = ("task", "method", "backbone", "suite")
"""Axes whose values are registered names."""
AXES = (*NAMED, "seed", "scale", "ruleset", "requests", "measure")
DERIVED = ("dataset", "kind")
"""What a match may name besides axes: the task's dataset and its kind of concept."""
FIELD_SETS = ("method_set", "backbone_set", "sid_set", "measure_set")
VARIED_SETTINGS = ("encoder", "threads", "oracle_seeds", "shadows")
DEFAULTS: dict[str, list[Any]] = {
    "backbone": ["tiger"],
    "seed": [0],
    "scale": ["default"],
    "suite": ["core"],
    "ruleset": ["default"],
    "requests": [1],
    "measure": [""],
}
EMPTY = "should have at least 1 item after validation, not 0"
_RANGE = re.compile(r"^\s*(\d+)\s*:\s*(\d+)\s*$")


class Kind(StrictModel):
    """All methods of a kind, as ``bench ls methods`` shows it."""

    kind: Literal["reference", "method", "variant"]


class Groups(StrictModel):
    """The file of groups (``tasks/grids/groups.yaml``)."""

    methods: dict[str, tuple[str, ...] | Kind]


def groups(known: Mapping[str, Entry] | None = None) -> dict[str, tuple[str, ...]]:
    """Groups of methods by name, in the order of ``bench ls methods`` or of the group's list.

    Raises:
        ConfigError: The file is broken.
        UnknownName: A group lists a method that does not exist.
    """
    known = methods() if known is None else known
    text = (resources.files(GRIDS) / GROUPS).read_text(encoding="utf-8")
    out = {}
    for name, content in parse_yaml(Groups, text, where=f"grids/{GROUPS}").methods.items():
        if isinstance(content, Kind):
            kinds = {each: "variant" if entry.variant_of else entry.kind for each, entry in known.items()}
            content = tuple(each for each, kind in kinds.items() if kind == content.kind)
        for each in content:
            if each not in known:
                raise UnknownName("method", each, known)
        out[name] = content
    return out


@dataclass(frozen=True)
class AxisNames:
    """Expands the names on a grid's axes: groups, patterns and files.

    Attributes:
        folder: The grid file's: paths of tasks and methods are relative to it.
        data_dir: Where imported datasets lie.
    """

    folder: Path
    catalogue: Catalogue
    data_dir: Path | None = None

    def expand(self, axis: str, text: str) -> tuple[str, ...]:
        """The names that one entry of an axis stands for, as a request gives them. Raises BenchError."""
        if axis == "method":
            return self._methods(text)
        if axis == "backbone":
            known = backbones()
            return tuple(known) if text == "all" else _matching("backbone", text, known)
        if axis == "task":
            return self._tasks(text)
        return _matching("suite", text, suites()) if axis == "suite" else (text,)

    def display_name(self, axis: str, text: str) -> str:
        """The name that tables show: a task or method from a file has the name that the file declares."""
        if axis == "task":
            return self.catalogue.task(text, self.data_dir).name
        return self.catalogue.method(text).name if axis == "method" else text

    def _methods(self, text: str) -> tuple[str, ...]:
        known = self.catalogue.methods()
        if text.startswith("@"):
            found = groups(known)
            if text[1:] not in found:
                raise UnknownName("group", text, [f"@{name}" for name in found])
            return found[text[1:]]
        if ".py" in text:
            place, _, name = text.rpartition(":") if not text.endswith(".py") else (text, "", "")
            path = f"{(self.folder / Path(place).expanduser()).resolve()}{f':{name}' if name else ''}"
            self.catalogue.method(path)
            return (path,)
        return _matching("method", text, known)

    def _tasks(self, text: str) -> tuple[str, ...]:
        if text.endswith((".yaml", ".yml")):
            path = str((self.folder / Path(text).expanduser()).resolve())
            self.catalogue.task(path)
            return (path,)
        if _is_pattern(text):
            return _matching("task", text, self.catalogue.tasks())
        self.catalogue.task(text, self.data_dir)
        return (text,)


class GridReader:
    """Normalises one grid file for ``GridSpec``."""

    def __init__(self, content: Mapping[str, Any], names: AxisNames) -> None:
        self.faults: list[str] = []
        self._content = content
        self._names = names
        self._values: dict[str, list[Any]] = {}

    def normalised(self) -> dict[str, Any]:
        """The content with every name expanded; afterwards ``faults`` holds what was wrong."""
        out = dict(self._content)
        if isinstance(out.get("axes"), dict):
            out["axes"] = {name: self._axis(name, value) for name, value in out["axes"].items()}
            self._values |= {name: value for name, value in DEFAULTS.items() if name not in out["axes"]}
        if "vary" in out:
            out["vary"] = self._vary(out["vary"])
        if isinstance(out.get("exclude"), list):
            out["exclude"] = [self._exclude(index, entry) for index, entry in enumerate(out["exclude"])]
        if isinstance(out.get("overrides"), list):
            out["overrides"] = [
                {**entry, "where": self._where(("overrides", index, "where"), entry.get("where"))}
                if isinstance(entry, dict)
                else entry
                for index, entry in enumerate(out["overrides"])
            ]
        return out

    def all_faults(self, of_models: Sequence[str]) -> list[str]:
        """Faults found here and by the models, with places as in the file."""
        # In the file a match of `exclude` stands without the level that the model gives it.
        found = [*self.faults, *(re.sub(r"^(exclude\.\d+)\.where", r"\1", fault) for fault in of_models)]
        # A list that lost its faulty entries is then also too short, which would only distract.
        reported = [fault.partition(": ")[0] for fault in found if EMPTY not in fault]
        return [
            fault
            for fault in found
            if EMPTY not in fault or not any(place.startswith(fault.partition(": ")[0]) for place in reported)
        ]

    def _fault(self, place: Sequence[str | int], message: str) -> None:
        self.faults.append(f"{'.'.join(map(str, place))}: {message}")

    def _axis(self, name: str, value: Any) -> Any:
        """All values of an axis, each once; remembered for the matches on it."""
        before = len(self.faults)
        found = self._entries(("axes", name), name, value, self._names.expand)
        if found is None:
            return value
        if len(self.faults) == before:
            self._values[name] = self._displayed(name, found)
            if name == "task":
                specs = [self._names.catalogue.task(each, self._names.data_dir) for each in found]
                self._values["dataset"] = [spec.dataset for spec in specs]
                self._values["kind"] = [spec.concept.kind for spec in specs]
        return found

    def _entries(
        self, place: Sequence[str | int], axis: str, value: Any, expand: Callable[[str, str], Sequence[Any]]
    ) -> list[Any] | None:
        """A value or a list as a list, ranges and names expanded; None where it has no such shape."""
        if isinstance(value, dict):
            return None
        listed = isinstance(value, list)
        out: list[Any] = []
        for index, entry in enumerate(value if listed else [value]):
            here = (*place, index) if listed else place
            if axis == "seed":
                out += self._seeds(here, entry)
            elif axis == "measure":
                out.append(self._measure(here, entry))
            elif axis in NAMED and not isinstance(entry, str):
                self._fault(here, f"a name is expected (got {entry!r})")
            elif axis in NAMED:
                try:
                    out += expand(axis, entry)
                except BenchError as fault:
                    self._fault(here, "; ".join(part for part in (fault.what, fault.hint) if part))
            else:
                out.append(entry)
        return list({(type(entry), repr(entry)): entry for entry in out}.values())

    def _seeds(self, place: Sequence[str | int], entry: Any) -> list[int]:
        """One seed, or a half-open range: ``0:5`` is 0, 1, 2, 3, 4, as in Python."""
        if type(entry) is int and entry >= 0:
            return [entry]
        text = str(entry)
        found = _RANGE.match(text)
        if found is None:
            self._fault(place, f"a seed or a range such as 0:5 is expected (got {entry!r})")
            return []
        first, end = int(found[1]), int(found[2])
        if end <= first or end - first > 10_000:
            self._fault(place, f"the range {text!r} holds {'no seeds' if end <= first else 'more than 10000 seeds'}")
            return []
        return list(range(first, end))

    def _measure(self, place: Sequence[str | int], entry: Any) -> Any:
        """Names of measurements, given as a list or joined by +, as one string."""
        names = entry.split("+") if isinstance(entry, str) else entry
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._fault(place, f"names of measurements are expected, as a list or joined by + (got {entry!r})")
            return ""
        known = list(measurements())
        for name in names:
            if name and name not in known:
                self._fault(place, f"unknown measurement {name!r}{_suggest(name, known)}")
        return "+".join(name for name in known if name in names)

    def _vary(self, value: Any) -> Any:
        """Blocks of varied fields; fields alone are one block."""
        blocks = value if isinstance(value, list) else [value]
        out = []
        for index, block in enumerate(blocks):
            place: tuple[str | int, ...] = ("vary", index) if isinstance(value, list) else ("vary",)
            if not isinstance(block, dict):
                return value
            if {"fields", "where", "plain"} & set(block):
                place = (*place, "fields")
            else:
                block = {"fields": block}
            if isinstance(block.get("fields"), dict):
                fields = {name: each if isinstance(each, list) else [each] for name, each in block["fields"].items()}
                for name, values in fields.items():
                    self._varied(place, str(name), values)
                block = {**block, "fields": fields}
            out.append(block)
        # Matches may name varied fields, so all of these have to be known first.
        return [
            {**block, "where": self._where(("vary", index, "where"), block["where"])} if "where" in block else block
            for index, block in enumerate(out)
        ]

    def _varied(self, place: Sequence[str | int], name: str, values: list[Any]) -> None:
        head, _, tail = name.partition(".")
        if not (head in FIELD_SETS and tail) and name not in VARIED_SETTINGS:
            known = [*(f"{each}.FIELD" for each in FIELD_SETS), *VARIED_SETTINGS]
            near = difflib.get_close_matches(head, FIELD_SETS, n=1) if tail else []
            hint = f"did you mean {near[0]}.{tail}?" if near else f"known: {', '.join(known)}"
            self._fault((*place, name), f"no field that a grid can vary; {hint}")
        if len({repr(value) for value in values}) < len(values):
            self._fault((*place, name), "a value stands twice")
        self._values[name] = [*self._values.get(name, []), *values]

    def _exclude(self, index: int, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        where = {name: value for name, value in entry.items() if name != "why"}
        out: dict[str, Any] = {"where": self._where(("exclude", index), where)}
        return {**out, "why": entry["why"]} if "why" in entry else out

    def _where(self, place: Sequence[str | int], where: Any) -> Any:
        """A match, its values expanded like those of the axes it names."""
        if not isinstance(where, dict):
            return where
        out = {}
        for name, value in where.items():
            here = (*place, name)
            known = [*AXES, *DERIVED, *(field for field in self._values if field not in (*AXES, *DERIVED))]
            if name not in known:
                self._fault(here, f"unknown axis{_suggest(name, known) or '; known: ' + ', '.join(known)}")
                continue
            out[name] = self._matched(here, str(name), value)
        return out

    def _matched(self, place: Sequence[str | int], axis: str, value: Any) -> list[Any]:
        """Values of an axis that a match selects; one that is not on the axis is a fault."""
        on_axis = self._values.get(axis)
        if on_axis is None:
            # The axis itself is faulty or missing, which is reported already.
            return [None]
        if isinstance(value, dict):
            self._fault(place, f"a value or a list of values is expected (got {value!r})")
            return [None]
        listed = isinstance(value, list)
        out: list[Any] = []
        for index, entry in enumerate(value if listed else [value]):
            here = (*place, index) if listed else place
            before = len(self.faults)
            found = self._entries(here, axis, entry, lambda _, text: self._expand_on(axis, text, on_axis)) or []
            matched = [each for each in found if each in on_axis]
            if len(self.faults) == before and not matched:
                listing = ", ".join(map(str, on_axis))
                hint = _suggest(str(entry), [str(each) for each in on_axis]) or f", which has {listing}"
                self._fault(here, f"{entry!r} is not on the axis{hint}")
            out += matched
        return list(dict.fromkeys(out)) if all(isinstance(each, str | int | float) for each in out) else out

    def _expand_on(self, axis: str, text: str, on_axis: Sequence[Any]) -> Sequence[Any]:
        if text in on_axis:
            return [text]
        if _is_pattern(text):
            return [each for each in on_axis if fnmatchcase(str(each), text)] or [text]
        if axis in ("method", "task", "backbone") and (text[:1] == "@" or text == "all" or "." in text):
            return self._displayed(axis, self._names.expand(axis, text))
        return [text]

    def _displayed(self, axis: str, values: Sequence[Any]) -> list[Any]:
        return [self._names.display_name(axis, each) if isinstance(each, str) else each for each in values]


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def _matching(kind: str, text: str, known: Mapping[str, object]) -> tuple[str, ...]:
    """Known names that a name or pattern matches. Raises UnknownName where there is none."""
    found = tuple(name for name in known if fnmatchcase(name, text)) if _is_pattern(text) else (text,)
    if not found or (not _is_pattern(text) and text not in known):
        raise UnknownName(kind, text, known)
    return found


def _suggest(text: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def read_grid(place: str, data_dir: Path | None = None) -> GridSpec:
    """Read the grid of a file, or the ready one of that name.

    Args:
        data_dir: Where imported datasets lie, for tasks on them.

    Raises:
        UnknownName: There is no such grid.
        ConfigError: The file is no grid; all faults at once, each with its place.
    """
    path = find_grid(place)
    reader = GridReader(read_content(path), AxisNames(path.resolve().parent, Catalogue(), data_dir))
    try:
        spec = parse(GridSpec, reader.normalised(), where=str(path))
    except ConfigError as fault:
        raise ConfigError(reader.all_faults(fault.faults), where=str(path)) from None
    if reader.faults:
        raise ConfigError(reader.all_faults(()), where=str(path))
    return spec
