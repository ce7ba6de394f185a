"""From a grid to its cells: axes crossed, fields varied, exclusions taken out, overrides applied.

The order is that of the file: task, scale, suite, backbone, seed, ruleset, requests, measurements, method, then varied
fields. For one field of a cell, what a varied field says goes before overrides, a later override before an earlier
one, and overrides before settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.data.formats.log_columns import Names
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.grid.cell import GridCell, cell_name
from genrec_unlearn_bench.grid.reading import FIELD_SETS
from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.grid.spec import DEFAULT_SCALE
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.spec import GridSpec

__all__ = ["expand"]

Axes = dict[str, Any]


def expand(
    spec: GridSpec, *, data_dir: Path | None, results_dir: Path, tuned_dir: Path, device: str | None
) -> tuple[GridCell, ...]:
    """The cells of a grid, in its order, each once.

    Args:
        device: Goes before what the grid says; None leaves it to the grid.

    Raises:
        ConfigError: An exclusion, an override or a varied field means no cell, a ruleset and a configuration of
            methods contradict each other, or two cells have one name; all of it at once.
    """
    places = {"data_dir": data_dir, "results_dir": results_dir, "tuned_dir": tuned_dir}
    return _Expansion(spec, places, device).cells()


@dataclass(frozen=True)
class _Point:
    """A cell before overrides: its place on the axes, and how a request names its task and method."""

    axes: Axes
    task: str
    method: str
    varied: Mapping[str, Any]


class _Expansion:
    def __init__(self, spec: GridSpec, places: Mapping[str, Path | None], device: str | None) -> None:
        self._spec = spec
        self._places = places
        self._device = device
        self._excluded = [0] * len(spec.exclude)
        self._overridden = [0] * len(spec.overrides)
        self._varied = [0] * len(spec.vary)
        self._faults: list[str] = []
        # Thousands of cells are of a few kinds as far as overrides go.
        self._changed = lru_cache(maxsize=None)(self._merged)

    def cells(self) -> tuple[GridCell, ...]:
        found: dict[str, GridCell] = {}
        for point in self._points():
            cell = self._cell(point)
            known = found.setdefault(cell.name, cell)
            if known.request != cell.request:
                self._faults.append(f"two different cells are named {cell.name!r}: {_differs(known, cell)}")
        self._check(found)
        if self._faults:
            raise ConfigError(list(dict.fromkeys(self._faults)), where=f"grid {self._spec.name}")
        return tuple(found.values())

    def _points(self) -> Iterator[_Point]:
        """Every cell that is not excluded, in order."""
        for axes, task, method in self._crossed():
            for varied in self._variations(axes, method in REFERENCE_ROWS):
                point = _Point({**axes, **varied}, task, method, varied)
                if not self._out(point.axes):
                    yield point

    def _crossed(self) -> Iterator[tuple[Axes, str, str]]:
        axes, names = self._spec.axes, Names()
        data_dir = self._places["data_dir"]
        tasks = [(names.task(task, data_dir), task) for task in axes.task]
        methods = [(names.method(method).name, method) for method in axes.method]
        rest = product(axes.scale, axes.suite, axes.backbone, axes.seed, axes.ruleset, axes.requests, axes.measure)
        for (task, told), others in product(tasks, list(rest)):
            scale, suite, backbone, seed, ruleset, requests, measure = others
            for name, method in methods:
                out: Axes = {
                    "task": task.name,
                    "dataset": task.dataset,
                    "kind": task.concept.kind,
                    "backbone": backbone,
                    "method": name,
                    "seed": seed,
                    "scale": scale,
                    "suite": suite,
                    # Reference rows have no configuration that a ruleset could choose: they belong to all of them.
                    "ruleset": "default" if method in REFERENCE_ROWS else ruleset,
                    "requests": requests,
                    "measure": measure,
                }
                yield out, told, method

    def _variations(self, axes: Axes, reference: bool) -> Iterator[dict[str, Any]]:
        """The varied fields of a cell: one empty mapping where nothing is varied."""
        plain, said = True, False
        for index, block in enumerate(self._spec.vary):
            if not _meant(block.where, axes):
                continue
            fields = {
                name: values for name, values in block.fields.items() if not (reference and name.startswith("method_"))
            }
            self._varied[index] += len(fields) > 0
            if not fields:
                continue
            if block.plain and not said:
                said = True
                yield {}
            plain = False
            for values in product(*fields.values()):
                yield dict(zip(fields, values, strict=True))
        if plain:
            yield {}

    def _out(self, axes: Axes) -> bool:
        hits = [index for index, entry in enumerate(self._spec.exclude) if _meant(entry.where, axes)]
        for index in hits:
            self._excluded[index] += 1
        return bool(hits)

    def _cell(self, point: _Point) -> GridCell:
        hits = tuple(index for index, entry in enumerate(self._spec.overrides) if _meant(entry.where, point.axes))
        for index in hits:
            self._overridden[index] += 1
        changes, resources = self._changed(hits)
        fields = dict(changes)
        for name, value in point.varied.items():
            head, _, tail = name.partition(".")
            fields[head] = {**fields.get(head, {}), tail: value} if tail else value
        if point.method in REFERENCE_ROWS:
            fields.pop("method_set", None)
        elif fields.get("method_set") and point.axes["ruleset"] != "default":
            self._faults.append(
                f"the ruleset {point.axes['ruleset']!r} fixes the configuration of {point.axes['method']!r}, and this "
                f"grid sets its {', '.join(fields['method_set'])}: leave one of the two out, or say where: "
                "{ruleset: default}"
            )
        if self._device is not None:
            fields["device"] = self._device
        axes, measure = point.axes, point.axes["measure"]
        request = RunRequest(
            task=point.task,
            method=point.method,
            backbone=axes["backbone"],
            seed=axes["seed"],
            scale=None if axes["scale"] == DEFAULT_SCALE else axes["scale"],
            suite=axes["suite"],
            ruleset=axes["ruleset"],
            requests=axes["requests"],
            measure=tuple(measure.split("+")) if measure else (),
            **self._places,
            **fields,
        )
        return GridCell(self._name(point, request), request, resources, axes)

    def _name(self, point: _Point, request: RunRequest) -> str:
        shown = {_short(name): _told(value) for name, value in point.varied.items()}
        if len(self._spec.axes.measure) > 1 and point.axes["measure"]:
            shown = {"measure": point.axes["measure"], **shown}
        if point.task == point.axes["task"] and point.method == point.axes["method"]:
            return cell_name(request, shown)
        # A file's path differs from machine to machine, the name that it gives itself does not.
        named = {"task": point.axes["task"], "method": point.axes["method"]}
        return cell_name(request.model_copy(update=named), shown)

    def _merged(self, hits: tuple[int, ...]) -> tuple[dict[str, Any], Resources]:
        """Settings with these overrides, and resources."""
        out = self._spec.settings.model_dump(exclude_unset=True)
        resources = self._spec.resources.model_dump()
        for index in hits:
            changes = self._spec.overrides[index].set.model_dump(exclude_unset=True)
            resources |= changes.pop("resources", {})
            for name, value in changes.items():
                out[name] = {**out.get(name, {}), **value} if name in FIELD_SETS else value
        # What is null here takes the request's default, whatever that is.
        return {name: value for name, value in out.items() if value is not None}, Resources(**resources)

    def _check(self, found: Mapping[str, GridCell]) -> None:
        """Whatever a file says has to mean something: what means nothing is a slip."""
        for kind, counts in (("exclude", self._excluded), ("overrides", self._overridden), ("vary", self._varied)):
            for index, count in enumerate(counts):
                if not count:
                    self._faults.append(f"{kind}[{index}]: no cell is meant by it{self._why(kind)}")
        if not found and not self._faults:
            self._faults.append("exclude: nothing is left to be run")

    def _why(self, kind: str) -> str:
        return ", or all that it means are excluded" if kind == "overrides" and self._spec.exclude else ""


def _meant(where: Mapping[str, tuple[Any, ...]], axes: Axes) -> bool:
    return all(name in axes and axes[name] in values for name, values in where.items())


def _short(field: str) -> str:
    """A varied field as names of cells show it: a method's own fields plainly, others with what they belong to."""
    head, _, tail = field.partition(".")
    if not tail or head == "method_set":
        return tail or head
    return f"{head.removesuffix('_set')}.{tail}"


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _differs(one: GridCell, other: GridCell) -> str:
    left, right = one.request.model_dump(), other.request.model_dump()
    return "; ".join(f"{name} {left[name]!r} or {right[name]!r}" for name in left if left[name] != right[name])
