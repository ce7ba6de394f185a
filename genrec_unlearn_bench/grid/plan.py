"""The state of a grid: which cells are done, missing or impossible, and the stages they share.

Every key of every cell follows from its request, so a plan only looks keys up. It computes and writes nothing.
"""

from __future__ import annotations

import gc
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.locate import offline
from genrec_unlearn_bench.errors import BenchError, DataMissing, StorageError
from genrec_unlearn_bench.grid.expand import Build, CellGraph, GridCell
from genrec_unlearn_bench.grid.spec import RESULT, Job, Resources
from genrec_unlearn_bench.pipeline.results import looks_whole, result_folder
from genrec_unlearn_bench.pipeline.stage import Stage, topological
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import differences
from genrec_unlearn_bench.store.store import StageStore

CellStatus = Literal["done", "missing", "impossible"]
"""``done``: the result that would be written now is there. ``impossible``: the cell cannot be run as it is asked."""

MAX_SAMPLES = 25
"""Manifests read for one estimate."""


@dataclass(frozen=True)
class PlannedCell:
    """One cell and its status.

    Attributes:
        reason: Why it stands so, in a sentence; empty for cells that are done.
        hint: How to fix it, where it is impossible.
        result: Folder of the result that is there.
        seconds: Wall-clock of its own stages, without shared ones; 0 where it is done, None where that is unknown.
        needs: Names of the shared stages to be made for it.
        key: Key of the result to be made; empty without its data.
        graph: Its stages, while the plan is made: those of 20,000 cells would fill the memory.
        missing: Stages to be made for it by key, upstream first, without the result; as long as ``graph``.
    """

    cell: GridCell
    status: CellStatus
    reason: str = ""
    result: Path | None = None
    seconds: float | None = None
    hint: str = ""
    needs: tuple[str, ...] = ()
    key: str = ""
    graph: CellGraph | None = None
    missing: Mapping[str, Stage] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A grid as it stands: cells in its order, and jobs of the stages that they share, each behind those it needs."""

    cells: tuple[PlannedCell, ...]
    shared: tuple[Job, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of cells by status."""
        found = Counter(planned.status for planned in self.cells)
        return {status: found[status] for status in get_args(CellStatus)}

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Jobs of the cells that are missing and of the stages that they share, each behind all it needs.

        The shared stages of a cell stand right before the first cell that needs them, so tables are complete early.
        """
        shared, out = {job.name: job for job in self.shared}, dict[str, Job]()
        for planned in self.cells:
            if planned.status == "missing":
                cell = planned.cell
                own = {"key": planned.key, "needs": planned.needs, "seconds": planned.seconds}
                out |= {need: shared[need] for need in planned.needs}
                out[cell.name] = Job(
                    name=cell.name, request=cell.request, cells=(cell.name,), resources=cell.resources, **own
                )
        return tuple(out.values())


def make_plan(cells: Sequence[GridCell], build: Build, store: StageStore, progress: Progress) -> Plan:
    """Look at every cell. Raises StorageError where the store or a results folder cannot be read."""
    planner = _Planner(build, store)
    # Nothing here is cyclic, and the collector would go through all graphs again and again.
    gc.disable()
    try:
        return _share([planner.look(cell) for cell in progress.track("planning", cells)], Costs(store))
    finally:
        gc.enable()


class _Planner:
    def __init__(self, build: Build, store: StageStore) -> None:
        self._build = build
        self._store = store
        self._missing: dict[str, Mapping[str, Stage]] = {}
        self._can_download = lru_cache(maxsize=None)(can_download)

    def look(self, cell: GridCell) -> PlannedCell:
        """The status of a cell. Raises StorageError."""
        try:
            graph = self._build(cell.request)
        except StorageError:
            raise
        except BenchError as fault:
            dataset = str(cell.axes.get("dataset", ""))
            if isinstance(fault, DataMissing) and self._can_download(dataset, cell.request.data_dir):
                return PlannedCell(cell, "missing", "the dataset's files are to be downloaded")
            lines = [line.strip(" -") for line in fault.what.splitlines()]
            reason = f"{lines[0]} {'; '.join(lines[1:])}".strip()
            return PlannedCell(cell, "impossible", reason, hint=fault.hint or "")
        there = result_folder(cell.request.results_dir, graph.cell, graph.result.key)
        if looks_whole(there):
            return PlannedCell(cell, "done", result=there, seconds=0.0)
        missing: dict[str, Stage] = {}
        for stage in graph.result.inputs.values():
            missing |= self._missing_for(stage)
        reason = f"not made yet: {next(iter(missing.values()), graph.result).title}"
        return PlannedCell(cell, "missing", reason, key=graph.result.key, graph=graph, missing=missing)

    def _missing_for(self, stage: Stage) -> Mapping[str, Stage]:
        """Stages to be made so that ``stage`` is there, itself included: nothing that only serves one that is there."""
        known = self._missing.get(stage.key)
        if known is None:
            found: dict[str, Stage] = {}
            if not self._store.contains(stage.name, stage.key):
                for upstream in stage.inputs.values():
                    found |= self._missing_for(upstream)
                found[stage.key] = stage
            known = self._missing[stage.key] = found
        return known


def can_download(dataset: str, data_dir: Path | None) -> bool:
    """Whether all files of a dataset can be fetched, and downloads are not switched off."""
    try:
        spec = find_dataset(dataset, data_dir)
    except BenchError:
        return False
    public = spec.hub is not None or all(file.url for file in spec.files)
    return bool(spec.files) and not offline() and public


class Costs:
    """Estimates: medians of stored stages of the same name and configuration, the seed left aside.

    Those made from a dataset itself are compared on the same dataset: a training's steps follow its size.
    """

    def __init__(self, store: StageStore) -> None:
        self._store = store
        self._keys = lru_cache(maxsize=None)(self._read_keys)
        self._median = lru_cache(maxsize=None)(self._read_median)

    def seconds(self, stages: Iterable[Stage]) -> float | None:
        """Of several stages together; None as soon as one of them is unknown."""
        found = [self._median(stage.name, _config(stage.recipe)) for stage in stages]
        known = [seconds for seconds in found if seconds is not None]
        return sum(known, 0.0) if len(known) == len(found) else None

    def _read_median(self, name: str, config: str) -> float | None:
        keys = self._keys(name).get(config, [])[:MAX_SAMPLES]
        found = [manifest.seconds for key in keys if (manifest := self._store.manifest(name, key)) is not None]
        return median(found) if found else None

    def _read_keys(self, name: str) -> Mapping[str, list[str]]:
        """Configuration -> keys of stored stages of a name."""
        found: dict[str, list[str]] = defaultdict(list)
        for key, recipe in self._store.recipes(name):
            found[_config(recipe)].append(key)
        return found


def _config(recipe: Mapping[str, Any]) -> str:
    """The configuration of a stage without its seed, and its dataset, to compare by."""
    config = recipe.get("config")
    plain = {name: value for name, value in config.items() if name != "seed"} if isinstance(config, dict) else config
    return json.dumps([plain, recipe.get("inputs", {}).get("dataset")], sort_keys=True)


def _share(cells: Sequence[PlannedCell], costs: Costs) -> Plan:
    """Divide the missing stages of cells into those that several cells need, which are jobs, and the cells' own."""
    users: dict[str, list[PlannedCell]] = defaultdict(list)
    missing: dict[str, Stage] = {}
    for planned in cells:
        missing |= planned.missing
        for key in planned.missing:
            users[key].append(planned)
    shared = {key: stage for key, stage in missing.items() if len(users[key]) > 1}
    names = {key: _job_name(stage, users[key][0]) for key, stage in shared.items()}

    def needs(stages: Mapping[str, Stage] | Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names[key] for key in stages if key in names))

    jobs = [
        Job(
            name=names[key],
            request=users[key][0].cell.request,
            until=stage.name,
            key=key,
            needs=needs([upstream.key for upstream in stage.inputs.values()]),
            cells=tuple(planned.cell.name for planned in users[key]),
            resources=_largest([planned.cell.resources for planned in users[key]]),
            seconds=costs.seconds([stage]),
        )
        for key, stage in shared.items()
    ]
    finished = []
    for planned in cells:
        if planned.graph is not None:
            own = costs.seconds(stage for key, stage in planned.missing.items() if key not in shared)
            planned = replace(planned, needs=needs(planned.missing), graph=None, missing={}, seconds=own)
        finished.append(planned)
    return Plan(tuple(finished), tuple(jobs))


def _job_name(stage: Stage, planned: PlannedCell) -> str:
    where = [str(planned.cell.axes.get("dataset", ""))]
    if planned.graph is not None:
        cell = planned.graph.cell
        where = [cell.task] if any(one.name == "task" for one in topological([stage])) else where
        if stage.name not in ("dataset", "task", "features"):
            where += [cell.backbone, cell.scale, f"seed {cell.seed}"]
    return f"{stage.title}: {', '.join(filter(None, where))} ({stage.key[:8]})"


def _largest(found: Sequence[Resources]) -> Resources:
    """The most of each resource; a limit that one of them does not have, none has."""
    fields: dict[str, Any] = {}
    for name in Resources.model_fields:
        values = {getattr(each, name) for each in found}
        fields[name] = None if None in values else max(values)
    return Resources(**fields)


def explain_cell(cell: GridCell, build: Build, store: StageStore) -> dict[str, Any]:
    """Why a cell stands as it does, as plain values. Raises StorageError.

    ``steps``: its stages, each with ``name``, ``of`` (role, where it has several of the name), ``key`` and ``there``
    (whether it is in the cache). ``difference``: the first stage to be made, the most similar stored one
    (``compared``) and the ``fields`` of their recipes that differ.
    """
    found, difference = _Planner(build, store).look(cell), None
    graph = build(cell.request) if found.status == "done" else found.graph
    if found.missing:
        # All inputs of the first are there.
        stage = next(iter(found.missing.values()))
        others = [(differences(recipe, stage.recipe), key) for key, recipe in store.recipes(stage.name)]
        if others:
            fields, key = min(others, key=lambda one: (len(one[0]), one[1]))
            lines = tuple(f"{name}: {values}" for name, values in fields.items())
            difference = {"stage": stage.title, "fields": lines, "compared": str(store.folder(stage.name, key))}
    steps = [
        {
            "name": stage.name,
            "of": stage.title.removeprefix(stage.name).strip(": ").removeprefix("of "),
            "key": stage.key,
            "there": found.status == "done" if stage.name == RESULT else store.contains(stage.name, stage.key),
        }
        # Without its data, or where it is impossible, it has no stages.
        for stage in (graph.stages.values() if graph is not None else ())
    ]
    return {
        **{name: getattr(found, name) for name in ("status", "reason", "hint")},
        "name": cell.name,
        "result": str(found.result) if found.result else None,
        "steps": steps,
        "difference": difference,
    }
