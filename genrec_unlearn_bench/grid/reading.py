"""From what a grid file holds to what its models take: one value or a list, ranges of seeds, groups and patterns.

Faults are gathered rather than raised, so that a user sees all of them at once. What has a wrong shape passes
unchanged: the models say what is wrong with it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.grid.asked import Asked, is_pattern
from genrec_unlearn_bench.grid.grid_text import GridText

__all__ = ["DERIVED", "FIELD_SETS", "Reading"]

NAMED = ("task", "method", "backbone", "suite")
"""Axes whose values are names of things that there are."""
AXES = (*NAMED, "seed", "scale", "ruleset", "requests", "measure")
DERIVED = ("dataset", "kind")
"""What a match may name besides: the task's dataset and its kind of concept."""
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
EMPTIED = "should have at least 1 item after validation, not 0"
_LINE = re.compile(r"\(line (\d+)\)")
_RANGE = re.compile(r"^\s*(\d+)\s*:\s*(\d+)\s*$")


class Reading:
    """One file on its way to a ``GridSpec``."""

    def __init__(self, text: GridText, asked: Asked) -> None:
        self.faults: list[str] = []
        self._text = text
        self._asked = asked
        self._values: dict[str, list[Any]] = {}

    def spelled(self) -> dict[str, Any]:
        """The content with everything spelled out; what was wrong is in ``faults`` afterwards."""
        out = dict(self._text.content)
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
        """What was found here and what the models say, with places and lines as in the file, from top to bottom."""
        found = [*self.faults, *map(self._placed, of_models)]
        # A list that lost its faulty entries is then also too short, which would only distract.
        told = [fault.partition(" (line")[0] for fault in found if EMPTIED not in fault]
        kept = [
            fault
            for fault in found
            if EMPTIED not in fault or not any(place.startswith(fault.partition(" (line")[0]) for place in told)
        ]
        return sorted(kept, key=lambda fault: int(line[1]) if (line := _LINE.search(fault)) else 0)

    def _placed(self, fault: str) -> str:
        place, colon, rest = fault.partition(": ")
        if not colon:
            return fault
        parts: list[str | int] = [int(part) if part.isdigit() else part for part in place.split(".")]
        if parts[0] == "exclude":
            # A match stands there without the level that the model gives it.
            parts = [part for part in parts if part != "where"]
        return f"{self._text.told(parts)}: {rest}"

    def _fault(self, place: Sequence[str | int], words: str) -> None:
        self.faults.append(f"{self._text.told(place)}: {words}")

    def _axis(self, name: str, value: Any) -> Any:
        """All values of an axis, each once; known afterwards for what matches on it."""
        place, before = ("axes", name), len(self.faults)
        found = self._entries(place, name, value, self._asked.spelled)
        if found is None:
            return value
        if len(self.faults) == before:
            self._values[name] = self._shown(name, found)
            if name == "task":
                specs = [self._asked.names.task(each, self._asked.data_dir) for each in found]
                self._values["dataset"] = [spec.dataset for spec in specs]
                self._values["kind"] = [spec.concept.kind for spec in specs]
        return found

    def _entries(self, place: Sequence[str | int], axis: str, value: Any, spell: Any) -> list[Any] | None:
        """A value or a list as a list, ranges and names spelled out; None where it has no such shape."""
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
                    out += spell(axis, entry)
                except BenchError as fault:
                    self._fault(here, "; ".join(part for part in (fault.what, fault.hint) if part))
            else:
                out.append(entry)
        return list({(type(entry), repr(entry)): entry for entry in out}.values())

    def _seeds(self, place: Sequence[str | int], entry: Any) -> list[int]:
        """One seed, or a range: ``0:5`` is 0, 1, 2, 3, 4, as in Python."""
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
        """Names of measurements, as a list or joined by +, in one word."""
        from genrec_unlearn_bench.evaluation.suites import measurements

        names = entry.split("+") if isinstance(entry, str) else entry
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._fault(place, f"names of measurements are expected, as a list or joined by + (got {entry!r})")
            return ""
        known = list(measurements())
        for name in names:
            if name and name not in known:
                self._fault(place, f"unknown measurement {name!r}{_near(name, known)}")
        return "+".join(name for name in known if name in names)

    def _vary(self, value: Any) -> Any:
        """Blocks of varied fields; fields alone are one block."""
        blocks = value if isinstance(value, list) else [value]
        listed = isinstance(value, list)
        out = []
        for index, block in enumerate(blocks):
            place: tuple[str | int, ...] = ("vary", index) if listed else ("vary",)
            if not isinstance(block, dict):
                return value
            if not {"fields", "where", "plain"} & set(block):
                block, inner = {"fields": block}, place
            else:
                inner = (*place, "fields")
            if isinstance(block.get("fields"), dict):
                fields = {name: each if isinstance(each, list) else [each] for name, each in block["fields"].items()}
                for name, values in fields.items():
                    self._varied(inner, str(name), values)
                block = {**block, "fields": fields}
            out.append(block)
        # Varied fields may be matched on, so that all of them have to be known first.
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
        """A match, with the reason beside it."""
        if not isinstance(entry, dict):
            return entry
        place = ("exclude", index)
        where = {name: value for name, value in entry.items() if name != "why"}
        out: dict[str, Any] = {"where": self._where(place, where)}
        return {**out, "why": entry["why"]} if "why" in entry else out

    def _where(self, place: Sequence[str | int], where: Any) -> Any:
        """A match with its values spelled out as those of the axes that it means."""
        if not isinstance(where, dict):
            return where
        out = {}
        for name, value in where.items():
            here = (*place, name)
            known = [*AXES, *DERIVED, *(field for field in self._values if field not in (*AXES, *DERIVED))]
            if name not in known:
                self._fault(here, f"unknown axis{_near(name, known) or '; known: ' + ', '.join(known)}")
                continue
            out[name] = self._meant(here, str(name), value)
        return out

    def _meant(self, place: Sequence[str | int], axis: str, value: Any) -> list[Any]:
        """Values of an axis that a match means; what is not on the axis is a fault."""
        there = self._values.get(axis)
        if there is None:
            # The axis itself is faulty, or missing: that is told already.
            return [None]
        if isinstance(value, dict):
            self._fault(place, f"a value or a list of values is expected (got {value!r})")
            return [None]
        listed = isinstance(value, list)
        out: list[Any] = []
        for index, entry in enumerate(value if listed else [value]):
            here = (*place, index) if listed else place
            before = len(self.faults)
            found = self._entries(here, axis, entry, lambda _, text: self._spelled_on(axis, text, there)) or []
            meant = [each for each in found if each in there]
            if len(self.faults) == before and not meant:
                words = ", ".join(map(str, there))
                hint = _near(str(entry), [str(each) for each in there]) or f", which has {words}"
                self._fault(here, f"{entry!r} is not on the axis{hint}")
            out += meant
        return list(dict.fromkeys(out)) if all(isinstance(each, str | int | float) for each in out) else out

    def _spelled_on(self, axis: str, text: str, there: Sequence[Any]) -> Sequence[Any]:
        """What an entry of a match stands for, by the names that tables show."""
        if text in there:
            return [text]
        if is_pattern(text):
            return [each for each in there if fnmatchcase(str(each), text)] or [text]
        if axis in ("method", "task", "backbone") and (text[:1] == "@" or text == "all" or "." in text):
            return self._shown(axis, self._asked.spelled(axis, text))
        return [text]

    def _shown(self, axis: str, values: Sequence[Any]) -> list[Any]:
        return [self._asked.shown(axis, each) if isinstance(each, str) else each for each in values]


def _near(text: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
