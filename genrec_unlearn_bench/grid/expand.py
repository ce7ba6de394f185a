"""From a grid file to its cells: names, groups and patterns expanded, axes crossed, fields varied, exclusions removed,
overrides applied.

The order is that of the file: task, scale, suite, backbone, seed, ruleset, requests, measurements, method, then varied
fields. For one field of a cell, a varied field goes before overrides, a later override before an earlier one, and
overrides before settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from importlib import resources as package_files
from itertools import product
from pathlib import Path
from typing import Any, Literal

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.config import one_of, parse, plain_yaml
from genrec_unlearn_bench.data.tasks import all_tasks
from genrec_unlearn_bench.errors import ConfigError, UnknownName, UsageError
from genrec_unlearn_bench.evaluation.suites import SUITES, measurements
from genrec_unlearn_bench.grid.spec import (
    DEFAULT_SCALE,
    FIELD_SETS,
    GRIDS,
    GROUPS,
    Axes,
    GridSpec,
    Resources,
    find_grid,
    listed,
    read_content,
    seeds,
)
from genrec_unlearn_bench.pipeline.record import Cell
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import Catalogue, resolve
from genrec_unlearn_bench.pipeline.stage import Stage, by_title
from genrec_unlearn_bench.registry import REFERENCE_ROWS, Entry, methods

Point = dict[str, Any]
"""Values on the axes and of varied fields."""


def read_grid(place: str, data_dir: Path | None = None) -> GridSpec:
    """Read the grid of a file, or the ready one of that name.

    Raises UnknownName, and ConfigError with all faults of the file, each with its place.
    """
    path = find_grid(place)
    return parse(GridSpec, read_content(path), where=str(path), context=Names(path.resolve().parent, data_dir))


def groups(known: Mapping[str, Entry] | None = None) -> dict[str, tuple[str, ...]]:
    """Groups of methods by name, in the order of ``bench ls methods`` or of the group's list."""
    known = methods() if known is None else known
    kinds = {name: "variant" if entry.variant_of else entry.kind for name, entry in known.items()}
    content = plain_yaml((package_files.files(GRIDS) / GROUPS).read_text(encoding="utf-8"))["methods"]
    return {
        group: tuple([name for name, kind in kinds.items() if kind == of["kind"]] if isinstance(of, dict) else of)
        for group, of in content.items()
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
                path = f"{self.path(place)}{f':{name}' if name else ''}"
                self._catalogue.method(path)
                return (path,)
        elif axis == "task":
            if not _is_pattern(text):
                text = self.path(text) if text.endswith((".yaml", ".yml")) else text
                self._catalogue.task(text, self._data_dir)
                return (text,)
            known = self._catalogue.once("every task", all_tasks, self._data_dir)
        elif axis == "backbone":
            known = backbones()
            text = "*" if text == "all" else text
        elif axis == "suite":
            known = SUITES
        return tuple(name for name in known if fnmatchcase(name, text)) or (one_of(axis, text, known),)

    def matched(self, axis: str, entry: Any) -> Sequence[Any]:
        """Values of an axis that an entry of a match selects. Raises UsageError where it selects none."""
        known = dict.fromkeys((*Axes.model_fields, "dataset", "kind", *self.values))
        one_of("axis", axis, known)
        on_axis = self.values.get(axis)
        # An axis that is faulty or missing is reported already.
        if on_axis is None or entry in on_axis:
            return [entry]
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

    def path(self, text: str) -> str:
        return str((self._folder / Path(text).expanduser()).resolve())


def _measurements(entry: Any) -> str:
    """Names of measurements, given as a list or joined by +, as one string."""
    names = [name for text in listed(entry) for name in str(text).split("+") if name]
    for name in names:
        one_of("measurement", name, measurements())
    return "+".join(name for name in measurements() if name in names)


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


@dataclass(frozen=True)
class GridCell:
    """One cell, as a grid file asks for it.

    Attributes:
        name: Unique within the grid, the same on every machine (``cell_name``).
        request: What ``bench run`` would be asked for.
        axes: The cell's values on the grid's axes, and its ``dataset`` and ``kind`` of concept.
    """

    name: str
    request: RunRequest
    resources: Resources = field(default_factory=Resources)
    axes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CellGraph:
    """A cell and its last stage, whose key is the result's; it is not in the store."""

    cell: Cell
    result: Stage

    @cached_property
    def stages(self) -> Mapping[str, Stage]:
        """All stages of the cell by label, upstream first."""
        return by_title(self.result)


Build = Callable[[RunRequest], CellGraph]
"""Builds the stages of a request. Raises BenchError for a request that cannot be run."""


def graph_builder(*, download: bool = False) -> Build:
    """A ``Build`` that shares lookups and stages between the cells of a grid.

    With ``download``, a dataset that is not on this machine is downloaded, which its keys need.
    """
    from genrec_unlearn_bench.pipeline.graph import build_result

    catalogue = Catalogue()
    memo: dict[Any, Any] = {}

    def build(request: RunRequest) -> CellGraph:
        resolved = resolve(request, catalogue=catalogue)
        return CellGraph(resolved.cell, build_result(resolved, memo, download=download))

    return build


def cell_name(request: RunRequest, varied: Mapping[str, Any] | None = None) -> str:
    """``task/backbone/method/scale-suite-ruleset-seed0``, then ``[field=value,…]`` where a grid varies fields."""
    parts = [request.scale or "default", request.suite, request.ruleset]
    if request.requests > 1:
        parts.append(f"requests{request.requests}")
    name = f"{request.task}/{request.backbone}/{request.method}/{'-'.join(parts)}-seed{request.seed}"
    fields = ",".join(f"{field}={value}" for field, value in (varied or {}).items())
    return f"{name}[{fields}]" if fields else name


def find_cell(text: str, cells: Sequence[GridCell]) -> GridCell:
    """The cell whose name contains all words of a text, ``tiger tracer seed0``; of several the shortest name.

    Raises UnknownName.
    """
    found = [cell for cell in cells if all(word in cell.name for word in text.split())]
    if not found:
        raise UnknownName("cell", text, [cell.name for cell in cells])
    return min(found, key=lambda cell: len(cell.name))


def expand(
    spec: GridSpec, *, data_dir: Path | None, results_dir: Path, tuned_dir: Path, device: str | None
) -> tuple[GridCell, ...]:
    """The cells of a grid, in its order, each once; ``device`` goes before the grid's own.

    Raises ConfigError with all faults: an exclusion, an override or a varied field matches no cell, a ruleset and a
    configuration of methods contradict each other, or two cells have one name.
    """
    return _Expansion(spec, {"data_dir": data_dir, "results_dir": results_dir, "tuned_dir": tuned_dir}, device).cells()


class _Expansion:
    def __init__(self, spec: GridSpec, places: Mapping[str, Path | None], device: str | None) -> None:
        self._spec = spec
        self._places = places
        self._device = device
        self._used: set[str] = set()
        """Entries of the file that have an effect, such as ``vary[0]``."""
        self._faults: list[str] = []
        # Thousands of cells are of a few kinds as far as overrides go.
        self._changed = lru_cache(maxsize=None)(self._merged)

    def cells(self) -> tuple[GridCell, ...]:
        found: dict[str, GridCell] = {}
        for axes, task, method in self._crossed():
            for varied in self._variations(axes):
                own = {**axes, **varied}
                if self._hits("exclude", own):
                    continue
                cell = self._cell(own, task, method, varied)
                known = found.setdefault(cell.name, cell)
                if known is not cell and known.request != cell.request:
                    self._faults.append(f"two different cells are named {cell.name!r}")
        # Everything in a file has to have an effect: what has none is a slip.
        for kind in ("exclude", "overrides", "vary"):
            why = ", or all that it means are excluded" if kind == "overrides" and self._spec.exclude else ""
            entries = [f"{kind}[{index}]" for index in range(len(getattr(self._spec, kind)))]
            self._faults += [f"{entry}: no cell is meant by it{why}" for entry in entries if entry not in self._used]
        if not found and not self._faults:
            self._faults.append("exclude: nothing is left to be run")
        if self._faults:
            raise ConfigError(list(dict.fromkeys(self._faults)), where=f"grid {self._spec.name}")
        return tuple(found.values())

    def _crossed(self) -> Iterator[tuple[Point, str, str]]:
        """Values on the axes, and how a request names task and method."""
        axes, catalogue = self._spec.axes, Catalogue()
        tasks = [(catalogue.task(task, self._places["data_dir"]), task) for task in axes.task]
        methods = [(catalogue.method(method).name, method) for method in axes.method]
        names = ("scale", "suite", "backbone", "seed", "ruleset", "requests", "measure")
        rest = [dict(zip(names, values, strict=True)) for values in product(*(getattr(axes, name) for name in names))]
        for (task, task_place), others in product(tasks, rest):
            of_task = {"task": task.name, "dataset": task.dataset, "kind": task.concept.kind}
            for name, method in methods:
                # Reference rows have no configuration that a ruleset could choose: they belong to all of them.
                ruleset = "default" if method in REFERENCE_ROWS else others["ruleset"]
                yield {**of_task, **others, "method": name, "ruleset": ruleset}, task_place, method

    def _variations(self, axes: Point) -> list[dict[str, Any]]:
        """The varied fields of a cell: one empty mapping where nothing is varied."""
        found: list[dict[str, Any]] = []
        for index, block in enumerate(self._spec.vary):
            fields = block.fields
            if axes["method"] in REFERENCE_ROWS:
                fields = {name: values for name, values in fields.items() if not name.startswith("method_")}
            if fields and _matches(block.where, axes):
                self._used.add(f"vary[{index}]")
                found += [{}] if block.plain and {} not in found else []
                found += [dict(zip(fields, values, strict=True)) for values in product(*fields.values())]
        return found or [{}]

    def _hits(self, kind: Literal["exclude", "overrides"], axes: Point) -> tuple[int, ...]:
        """The entries of one kind that mean a cell."""
        hits = tuple(index for index, entry in enumerate(getattr(self._spec, kind)) if _matches(entry.where, axes))
        self._used.update(f"{kind}[{index}]" for index in hits)
        return hits

    def _cell(self, axes: Point, task: str, method: str, varied: Mapping[str, Any]) -> GridCell:
        changes, resources = self._changed(self._hits("overrides", axes))
        fields = dict(changes)
        for name, value in varied.items():
            head, _, tail = name.partition(".")
            fields[head] = {**fields.get(head, {}), tail: value} if tail else value
        if method in REFERENCE_ROWS:
            fields.pop("method_set", None)
        elif fields.get("method_set") and axes["ruleset"] != "default":
            self._faults.append(
                f"the ruleset {axes['ruleset']!r} fixes the configuration of {axes['method']!r}, and this grid sets its"
                f" {', '.join(fields['method_set'])}: leave one of the two out, or say where: {{ruleset: default}}"
            )
        if self._device is not None:
            fields["device"] = self._device
        measure = axes["measure"]
        request = RunRequest(
            task=task,
            method=method,
            scale=None if axes["scale"] == DEFAULT_SCALE else axes["scale"],
            measure=tuple(measure.split("+")) if measure else (),
            **{name: axes[name] for name in ("backbone", "seed", "suite", "ruleset", "requests")},
            **self._places,
            **fields,
        )
        short = {_short(name): _text(value) for name, value in varied.items()}
        if len(self._spec.axes.measure) > 1 and measure:
            short = {"measure": measure, **short}
        named = request
        if task != axes["task"] or method != axes["method"]:
            # A file's path differs from machine to machine, the name that it declares does not.
            named = request.model_copy(update={"task": axes["task"], "method": axes["method"]})
        return GridCell(cell_name(named, short), request, resources, axes)

    def _merged(self, hits: tuple[int, ...]) -> tuple[dict[str, Any], Resources]:
        out = self._spec.settings.model_dump(exclude_unset=True)
        resources = self._spec.resources.model_dump()
        for index in hits:
            changes = self._spec.overrides[index].set.model_dump(exclude_unset=True)
            resources |= changes.pop("resources", {})
            for name, value in changes.items():
                out[name] = {**out.get(name, {}), **value} if name in FIELD_SETS else value
        # A field that is null here takes the request's default.
        return {name: value for name, value in out.items() if value is not None}, Resources(**resources)


def _matches(where: Mapping[str, tuple[Any, ...]], axes: Point) -> bool:
    return all(name in axes and axes[name] in values for name, values in where.items())


def _short(field: str) -> str:
    """A varied field in names of cells: a method's own fields without a prefix, others with what they belong to."""
    head, _, tail = field.partition(".")
    if not tail or head == "method_set":
        return tail or head
    return f"{head.removesuffix('_set')}.{tail}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
