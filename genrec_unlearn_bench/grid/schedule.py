"""Jobs of a grid: its cells and the stages that they share, with what each is expected to cost.

Costs are medians over stored stages of the same name and configuration, the seed left aside.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.grid.spec import Resources
from genrec_unlearn_bench.pipeline.request import RunRequest

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.expand import CellGraph, GridCell
    from genrec_unlearn_bench.pipeline.stage import Stage
    from genrec_unlearn_bench.store.store import StageStore

RESULT = "result"
MAX_SAMPLES = 25
"""Manifests read for one estimate."""


class Job(StrictModel):
    """One piece of work: a cell, or a stage that cells share. Plain JSON, so that it can be handed to any executor."""

    name: str
    """Unique within the sweep and the same in every plan: that of the cell, or of the shared stage
    (``original: industrial, tiger, small, seed 0 (3fa2b1c4)``)."""
    request: RunRequest
    """The cell; for a shared stage, one of the cells that need it."""
    until: str = RESULT
    """Name of the stage that the job ends with: ``original``, ``retrain``, …; ``result`` for a cell."""
    keys: tuple[str, ...] = ()
    """Keys of the stages to be made, upstream first, for a shared stage."""
    needs: tuple[str, ...] = ()
    """Jobs that have to be done first."""
    cells: tuple[str, ...] = ()
    """Cells that cannot be finished without it."""
    resources: Resources = Field(default_factory=Resources)
    seconds: float | None = None
    """Estimated wall-clock; None where it is unknown, as for the next two."""
    size: int | None = None
    """Bytes that it will add to the cache."""
    memory_mib: float | None = None
    """Peak memory of the process or the device."""


@dataclass(frozen=True)
class Estimate:
    """Expected cost: wall-clock, bytes in the cache and peak memory; None where it is unknown."""

    seconds: float | None = None
    size: int | None = None
    memory_mib: float | None = None


class Costs:
    """Estimates from a store, each made once."""

    def __init__(self, store: StageStore) -> None:
        self._store = store
        self._keys: dict[str, dict[str, list[str]]] = {}
        self._known: dict[tuple[str, str], Estimate] = {}

    def total(self, stages: Iterable[Stage]) -> Estimate:
        """The cost of several stages one after the other: unknown as soon as one is; memory is the largest known."""
        found = [self._of(stage) for stage in stages]
        seconds, sizes = [one.seconds for one in found], [one.size for one in found]
        peaks = [one.memory_mib for one in found if one.memory_mib is not None]
        return Estimate(
            seconds=None if None in seconds else sum(value for value in seconds if value is not None),
            size=None if None in sizes else sum(value for value in sizes if value is not None),
            memory_mib=max(peaks, default=None),
        )

    def _of(self, stage: Stage) -> Estimate:
        group = (stage.name, _config(stage.recipe))
        if group not in self._known:
            self._known[group] = self._estimate(*group)
        return self._known[group]

    def _estimate(self, name: str, config: str) -> Estimate:
        if name not in self._keys:
            found: dict[str, list[str]] = defaultdict(list)
            for key, recipe in self._store.recipes(name):
                found[_config(recipe)].append(key)
            self._keys[name] = found
        keys = self._keys[name].get(config, [])[:MAX_SAMPLES]
        manifests = [manifest for key in keys if (manifest := self._store.manifest(name, key)) is not None]
        if not manifests:
            return Estimate()
        peaks = [float(peak) for each in manifests if (peak := each.facts.get("peak_memory_mib"))]
        return Estimate(
            seconds=median(each.seconds for each in manifests),
            size=round(median(each.size for each in manifests)),
            memory_mib=median(peaks) if peaks else None,
        )


def _config(recipe: Mapping[str, Any]) -> str:
    """The configuration of a stage without its seed, to compare by."""
    config = recipe.get("config")
    plain = {name: value for name, value in config.items() if name != "seed"} if isinstance(config, dict) else config
    return json.dumps(plain, sort_keys=True)


@dataclass(frozen=True)
class WaitingCell:
    """A cell to be run; ``missing`` are the stages to be made for it by key, upstream first, without the result."""

    cell: GridCell
    graph: CellGraph
    missing: Mapping[str, Stage]


class Sharing:
    """Divides the missing stages of waiting cells into those that several cells need and the cells' own.

    A shared stage whose only missing consumer is another shared stage is made by that one's job.
    """

    def __init__(self, waiting: Sequence[WaitingCell], costs: Costs) -> None:
        self._costs = costs
        self._cells: dict[str, list[WaitingCell]] = defaultdict(list)
        missing: dict[str, Stage] = {}
        consumers: dict[str, set[str]] = defaultdict(set)
        for each in waiting:
            missing |= each.missing
            for key in each.missing:
                self._cells[key].append(each)
            for stage in each.graph.result.inputs.values():
                consumers[stage.key].add(each.cell.name)
        for key, stage in missing.items():
            for upstream in stage.inputs.values():
                consumers[upstream.key].add(key)
        self._shared = {key: stage for key, stage in missing.items() if len(self._cells[key]) > 1}
        self._leader: dict[str, str] = {}
        for key in reversed(self._shared):
            only = next(iter(consumers[key])) if len(consumers[key]) == 1 else ""
            self._leader[key] = self._leader[only] if only in self._shared else key
        self._names = {key: self._name(key) for key in dict.fromkeys(self._leader.values())}

    def jobs(self) -> Iterator[Job]:
        """Jobs of the shared stages, each behind those it needs."""
        members: dict[str, list[Stage]] = defaultdict(list)
        for key, stage in self._shared.items():
            members[self._leader[key]].append(stage)
        for leader in (key for key in self._shared if key in members):
            group, cells = members[leader], [each.cell for each in self._cells[leader]]
            needs = dict.fromkeys(
                self._leader[up.key] for one in group for up in one.inputs.values() if up.key in self._shared
            )
            yield Job(
                name=self._names[leader],
                request=cells[0].request,
                until=self._shared[leader].name,
                keys=tuple(stage.key for stage in group),
                needs=tuple(self._names[key] for key in needs if key != leader),
                cells=tuple(cell.name for cell in cells),
                resources=_largest([cell.resources for cell in cells]),
                **vars(self._costs.total(group)),
            )

    def needs(self, waiting: WaitingCell) -> tuple[str, ...]:
        """Names of the shared stages to be made for a cell."""
        return tuple(dict.fromkeys(self._names[self._leader[key]] for key in waiting.missing if key in self._shared))

    def cost(self, waiting: WaitingCell) -> Estimate:
        """The cost of the cell's own stages."""
        return self._costs.total(stage for key, stage in waiting.missing.items() if key not in self._shared)

    def _name(self, key: str) -> str:
        stage, first = self._shared[key], self._cells[key][0]
        cell = first.graph.cell
        where = [cell.task if "task" in _upstream_names(stage) else str(first.cell.axes.get("dataset", ""))]
        if stage.name not in ("dataset", "task", "features"):
            where += [cell.backbone, cell.scale, f"seed {cell.seed}"]
        return f"{stage.title}: {', '.join(filter(None, where))} ({key[:8]})"


def _upstream_names(stage: Stage) -> set[str]:
    return {stage.name}.union(*(_upstream_names(upstream) for upstream in stage.inputs.values()))


def _largest(found: Sequence[Resources]) -> Resources:
    """The most of each resource; a limit that one of them does not have, none has."""
    fields: dict[str, Any] = {}
    for name in Resources.model_fields:
        values = {getattr(each, name) for each in found}
        fields[name] = None if None in values else max(values)
    return Resources(**fields)
