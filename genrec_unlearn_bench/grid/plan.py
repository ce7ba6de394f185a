"""The state of a grid: which cells are done, missing, stale or impossible, and the stages they share.

Every key of every cell follows from its request, so a plan only looks keys up. It computes and writes nothing.
"""

from __future__ import annotations

import gc
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.locate import OFFLINE_VARIABLE
from genrec_unlearn_bench.errors import BenchError, DataMissing, StorageError
from genrec_unlearn_bench.grid.estimate import Costs, total
from genrec_unlearn_bench.grid.explain import Difference, ResultIndex, first_difference, nearest_difference

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.expand import Build, CellGraph, GridCell
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.stage import Stage
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.store.store import StageStore

Standing = Literal["done", "missing", "stale", "impossible"]
"""``done``: the result that would be written now is there. ``stale``: a result of the cell is there, made from
something else (other code, configuration or data). ``impossible``: the cell cannot be run as it is asked for."""

STANDINGS: tuple[Standing, ...] = ("done", "missing", "stale", "impossible")

TO_DOWNLOAD = "the dataset's files are to be downloaded"
ONLY_THE_RESULT = "only the result is to be written"
_MISSING = {
    "dataset": "the dataset is not prepared yet",
    "task": "the task is not resolved yet",
    "features": "the items are not encoded yet",
    "sids": "the semantic IDs are not made yet",
    "original": "the original is not trained yet",
    "retrain": "an oracle is not retrained yet",
    "unlearned": "it is not unlearned yet",
    "evaluation": "it is not evaluated yet",
}


@dataclass(frozen=True)
class PlannedCell:
    """One cell and its standing.

    Attributes:
        reason: Why it stands so, in a sentence; empty for cells that are done.
        hint: How to fix it, where it is impossible.
        result: Folder of the result that is there; for a stale cell, of the newest one.
        seconds: Wall-clock of its own stages, without shared ones; 0 where it is done, None where that is unknown.
        size: Bytes that its own stages will take in the cache.
        memory_mib: Peak memory of its own stages.
        needs: Names of the shared stages to be made for it.
    """

    cell: GridCell
    standing: Standing
    reason: str = ""
    result: Path | None = None
    seconds: float | None = None
    hint: str = ""
    size: int | None = None
    memory_mib: float | None = None
    needs: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it is to be run."""
        return self.standing in ("missing", "stale")


@dataclass(frozen=True)
class SharedStage:
    """A missing stage that several cells need, with the shared stages that only serve it.

    Attributes:
        name: Unique and the same in every plan: ``original: industrial, tiger, small, seed 0 (3fa2b1c4)``.
        until: Name of the stage.
        keys: Keys of the stages, upstream first.
        request: A cell that needs it.
        cells: Names of all waiting cells that need it.
        needs: Names of the shared stages to be made before it.
        seconds, size, memory_mib: As for cells.
    """

    name: str
    until: str
    keys: tuple[str, ...]
    request: RunRequest
    cells: tuple[str, ...]
    needs: tuple[str, ...] = ()
    seconds: float | None = None
    size: int | None = None
    memory_mib: float | None = None


@dataclass(frozen=True)
class Plan:
    """A grid as it stands.

    Attributes:
        cells: In the grid's order.
        shared: Stages to be made that cells share, each behind those it needs.
    """

    cells: tuple[PlannedCell, ...]
    shared: tuple[SharedStage, ...] = field(default=())

    @property
    def counts(self) -> dict[Standing, int]:
        """Number of cells by standing."""
        found = Counter(planned.standing for planned in self.cells)
        return {standing: found[standing] for standing in STANDINGS}


def make_plan(cells: Sequence[GridCell], build: Build, store: StageStore, progress: Progress) -> Plan:
    """Look at every cell. Raises StorageError where the store or a results folder cannot be read."""
    planner = _Planner(build, store)
    with _without_collection():
        # Graphs of finished cells are dropped at once: of 20,000 cells they would fill the memory.
        drafts = [_waiting(planner.look(cell)) for cell in progress.track("planning", cells)]
    sharing = _Sharing([draft for draft in drafts if draft.graph is not None], Costs(store))
    return Plan(tuple(sharing.costed(draft) for draft in drafts), tuple(sharing.stages()))


@contextmanager
def _without_collection() -> Iterator[None]:
    """Switch the garbage collector off: nothing here is cyclic, and it would go through all graphs again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(frozen=True)
class _Draft:
    """A cell that was looked at; ``missing`` are the stages to be made for it, upstream first, without the result."""

    planned: PlannedCell
    graph: CellGraph | None = None
    missing: Mapping[str, Stage] = field(default_factory=dict)
    difference: Difference | None = None


def _waiting(draft: _Draft) -> _Draft:
    return draft if draft.planned.waits else _Draft(draft.planned)


class _Planner:
    def __init__(self, build: Build, store: StageStore) -> None:
        self.store = store
        self.results = ResultIndex()
        self._build = build
        self._missing: dict[str, Mapping[str, Stage]] = {}
        self._downloads: dict[tuple[str, Path | None], bool] = {}

    def look(self, cell: GridCell) -> _Draft:
        """The standing of a cell. Raises StorageError."""
        try:
            graph = self._build(cell.request)
        except StorageError:
            raise
        except BenchError as fault:
            if isinstance(fault, DataMissing) and self._can_download(cell):
                return _Draft(PlannedCell(cell, "missing", TO_DOWNLOAD))
            return _Draft(PlannedCell(cell, "impossible", _sentence(fault), hint=fault.hint or ""))
        root = cell.request.results_dir
        there = self.results.find(root, graph.cell, graph.result.key)
        if there is not None:
            return _Draft(PlannedCell(cell, "done", result=there, seconds=0.0, size=0), graph)
        missing: dict[str, Stage] = {}
        for stage in graph.result.inputs.values():
            missing |= self._missing_for(stage)
        request = cell.request.model_copy(update={"scale": graph.cell.scale})
        others = self.results.of_cell(root, graph.cell, request.command())
        if not others:
            return _Draft(PlannedCell(cell, "missing", _reason(missing)), graph, missing)
        difference = first_difference(graph.stages, others[0], self.store)
        if difference is None and others[0].key == graph.result.key:
            # The record is there, and a part of the folder is not.
            return _Draft(PlannedCell(cell, "missing", "its result is incomplete"), graph, missing)
        reason = "its result was made from other stages" if difference is None else difference.sentence
        return _Draft(PlannedCell(cell, "stale", reason, others[0].folder), graph, missing, difference)

    def _missing_for(self, stage: Stage) -> Mapping[str, Stage]:
        """Stages to be made so that ``stage`` is there, itself included: nothing that only serves one that is there."""
        known = self._missing.get(stage.key)
        if known is None:
            found: dict[str, Stage] = {}
            if not self.store.contains(stage.name, stage.key):
                for upstream in stage.inputs.values():
                    found |= self._missing_for(upstream)
                found[stage.key] = stage
            known = self._missing[stage.key] = found
        return known

    def _can_download(self, cell: GridCell) -> bool:
        """Whether all files of its dataset have a public address, and downloads are not switched off."""
        name, data_dir = str(cell.axes.get("dataset", "")), cell.request.data_dir
        if (name, data_dir) not in self._downloads:
            try:
                files = find_dataset(name, data_dir).files
            except BenchError:
                files = ()
            offline = os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")
            self._downloads[name, data_dir] = bool(files) and not offline and all(file.url for file in files)
        return self._downloads[name, data_dir]


class _Sharing:
    """Divides the missing stages of waiting cells into those that several cells need and the cells' own.

    A shared stage whose only missing consumer is another shared stage is made by that one's job.
    """

    def __init__(self, drafts: Sequence[_Draft], costs: Costs) -> None:
        self._costs = costs
        self._cells: dict[str, list[_Draft]] = defaultdict(list)
        missing: dict[str, Stage] = {}
        consumers: dict[str, set[str]] = defaultdict(set)
        for draft in drafts:
            missing |= draft.missing
            for key in draft.missing:
                self._cells[key].append(draft)
            for stage in draft.graph.result.inputs.values() if draft.graph else ():
                consumers[stage.key].add(draft.planned.cell.name)
        for key, stage in missing.items():
            for upstream in stage.inputs.values():
                consumers[upstream.key].add(key)
        self._shared = {key: stage for key, stage in missing.items() if len(self._cells[key]) > 1}
        self._leader: dict[str, str] = {}
        for key in reversed(self._shared):
            only = next(iter(consumers[key])) if len(consumers[key]) == 1 else ""
            self._leader[key] = self._leader[only] if only in self._shared else key
        self._names = {key: self._name(key) for key in dict.fromkeys(self._leader.values())}

    def stages(self) -> Iterator[SharedStage]:
        """The shared stages, each behind those it needs."""
        members: dict[str, list[Stage]] = defaultdict(list)
        for key, stage in self._shared.items():
            members[self._leader[key]].append(stage)
        for leader in (key for key in self._shared if key in members):
            group = members[leader]
            needs = {
                self._leader[up.key]: None for one in group for up in one.inputs.values() if up.key in self._shared
            }
            estimate = total(self._costs.of(stage) for stage in group)
            yield SharedStage(
                name=self._names[leader],
                until=self._shared[leader].name,
                keys=tuple(stage.key for stage in group),
                request=self._cells[leader][0].planned.cell.request,
                cells=tuple(draft.planned.cell.name for draft in self._cells[leader]),
                needs=tuple(self._names[key] for key in needs if key != leader),
                **vars(estimate),
            )

    def costed(self, draft: _Draft) -> PlannedCell:
        """The cell with the costs of its own stages and the names of the shared ones."""
        if draft.graph is None:
            return draft.planned
        estimate = total(self._costs.of(stage) for key, stage in draft.missing.items() if key not in self._shared)
        needs = dict.fromkeys(self._names[self._leader[key]] for key in draft.missing if key in self._shared)
        return replace(draft.planned, needs=tuple(needs), **vars(estimate))

    def _name(self, key: str) -> str:
        stage, draft = self._shared[key], self._cells[key][0]
        axes, cell = draft.planned.cell.axes, draft.graph.cell if draft.graph else None
        upstream = _upstream_names(stage)
        where = [str(axes.get("dataset", "")) if "task" not in upstream else cell.task if cell else ""]
        if cell is not None and stage.name not in ("dataset", "task", "features"):
            where += [cell.backbone, cell.scale, f"seed {cell.seed}"]
        return f"{stage.title}: {', '.join(filter(None, where))} ({key[:8]})"


def _upstream_names(stage: Stage) -> set[str]:
    return {stage.name}.union(*(_upstream_names(upstream) for upstream in stage.inputs.values()))


def _reason(missing: Mapping[str, Stage]) -> str:
    if not missing:
        return ONLY_THE_RESULT
    first = next(iter(missing.values()))
    return _MISSING.get(first.name, f"{first.title} is not there yet")


def _sentence(fault: BenchError) -> str:
    lines = [line.strip(" -") for line in fault.what.splitlines()]
    return f"{lines[0]} {'; '.join(lines[1:])}".strip()


@dataclass(frozen=True)
class Step:
    """A stage of a cell.

    Attributes:
        of: Role, where a cell has several stages of the name.
        there: Whether it is in the cache.
        then: The key that it has in the result that is there, where that is another.
    """

    name: str
    of: str
    key: str
    there: bool
    then: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a cell stands as it does.

    Attributes:
        difference: The first stage that differs from the result that is there, or from the nearest stored stage.
        compared: Folder of that result or stage.
    """

    name: str
    standing: Standing
    reason: str
    hint: str
    result: Path | None
    steps: tuple[Step, ...] = ()
    difference: Difference | None = None
    compared: str = ""


def explain_cell(cell: GridCell, build: Build, store: StageStore) -> Explanation:
    """Explain one cell. Raises StorageError."""
    draft = _Planner(build, store).look(cell)
    found = draft.planned
    explanation = Explanation(cell.name, found.standing, found.reason, found.hint, found.result)
    if draft.graph is None:
        return explanation
    difference = draft.difference
    if found.standing == "missing":
        difference = nearest_difference(list(draft.missing.values()), store)
    steps = []
    for stage in draft.graph.stages.values():
        is_result = stage is draft.graph.result
        there = found.standing == "done" if is_result else store.contains(stage.name, stage.key)
        then = difference.then if difference is not None and difference.now == stage.key else ""
        of = stage.title.removeprefix(stage.name).strip(": ").removeprefix("of ")
        steps.append(Step(stage.name, of, stage.key, there, then))
    compared = "" if difference is None else difference.of or str(found.result)
    return replace(explanation, steps=tuple(steps), difference=difference, compared=compared)
