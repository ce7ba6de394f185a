"""The state of a grid: which cells are done, missing, stale or impossible, and the stages they share.

Every key of every cell follows from its request, so a plan only looks keys up. It computes and writes nothing.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.locate import OFFLINE_VARIABLE
from genrec_unlearn_bench.errors import BenchError, DataMissing, StorageError
from genrec_unlearn_bench.grid.explain import Difference, ResultIndex, first_difference, nearest_difference
from genrec_unlearn_bench.grid.schedule import Costs, Job, Sharing, WaitingCell

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.expand import Build, GridCell
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
class Plan:
    """A grid as it stands.

    Attributes:
        cells: In the grid's order.
        shared: Jobs of the stages to be made that cells share, each behind those it needs.
    """

    cells: tuple[PlannedCell, ...]
    shared: tuple[Job, ...] = ()

    @property
    def counts(self) -> dict[Standing, int]:
        """Number of cells by standing."""
        found = Counter(planned.standing for planned in self.cells)
        return {standing: found[standing] for standing in STANDINGS}


def make_plan(cells: Sequence[GridCell], build: Build, store: StageStore, progress: Progress) -> Plan:
    """Look at every cell. Raises StorageError where the store or a results folder cannot be read."""
    planner = _Planner(build, store)
    with _without_collection():
        looks = [planner.look(cell) for cell in progress.track("planning", cells)]
    sharing = Sharing([look.waiting for look in looks if look.waiting is not None], Costs(store))
    planned = [
        look.planned
        if look.waiting is None
        else replace(look.planned, needs=sharing.needs(look.waiting), **vars(sharing.cost(look.waiting)))
        for look in looks
    ]
    return Plan(tuple(planned), tuple(sharing.jobs()))


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
class _Look:
    """What was found of a cell. Graphs of finished cells are dropped: of 20,000 cells they would fill the memory."""

    planned: PlannedCell
    waiting: WaitingCell | None = None
    difference: Difference | None = None


class _Planner:
    def __init__(self, build: Build, store: StageStore) -> None:
        self.store = store
        self.results = ResultIndex()
        self._build = build
        self._missing: dict[str, Mapping[str, Stage]] = {}
        self._downloads: dict[tuple[str, Path | None], bool] = {}

    def look(self, cell: GridCell) -> _Look:
        """The standing of a cell. Raises StorageError."""
        try:
            graph = self._build(cell.request)
        except StorageError:
            raise
        except BenchError as fault:
            if isinstance(fault, DataMissing) and self._can_download(cell):
                return _Look(PlannedCell(cell, "missing", TO_DOWNLOAD))
            return _Look(PlannedCell(cell, "impossible", _sentence(fault), hint=fault.hint or ""))
        root = cell.request.results_dir
        there = self.results.find(root, graph.cell, graph.result.key)
        if there is not None:
            return _Look(PlannedCell(cell, "done", result=there, seconds=0.0, size=0))
        missing: dict[str, Stage] = {}
        for stage in graph.result.inputs.values():
            missing |= self._missing_for(stage)
        waiting = WaitingCell(cell, graph, missing)
        request = cell.request.model_copy(update={"scale": graph.cell.scale})
        others = self.results.of_cell(root, graph.cell, request.command())
        if not others:
            return _Look(PlannedCell(cell, "missing", _reason(missing)), waiting)
        difference = first_difference(graph.stages, others[0], self.store)
        if difference is None and others[0].key == graph.result.key:
            # The record is there, and a part of the folder is not.
            return _Look(PlannedCell(cell, "missing", "its result is incomplete"), waiting)
        reason = "its result was made from other stages" if difference is None else difference.sentence
        return _Look(PlannedCell(cell, "stale", reason, others[0].folder), waiting, difference)

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


def _reason(missing: Mapping[str, Stage]) -> str:
    if not missing:
        return ONLY_THE_RESULT
    first = next(iter(missing.values()))
    return _MISSING.get(first.name, f"{first.title} is not there yet")


def _sentence(fault: BenchError) -> str:
    lines = [line.strip(" -") for line in fault.what.splitlines()]
    return f"{lines[0]} {'; '.join(lines[1:])}".strip()


def schedule(plan: Plan) -> tuple[Job, ...]:
    """Jobs of the cells that are missing or stale and of the stages that they share, each behind all it needs.

    The shared stages of a cell stand right before the first cell that needs them, so tables are complete early.
    """
    shared = {job.name: job for job in plan.shared}
    out: dict[str, Job] = {}

    def add(name: str) -> None:
        if name in shared and name not in out:
            for need in shared[name].needs:
                add(need)
            out[name] = shared[name]

    for planned in plan.cells:
        if not planned.waits:
            continue
        for name in planned.needs:
            add(name)
        cell = planned.cell
        out[cell.name] = Job(
            name=cell.name,
            request=cell.request,
            needs=planned.needs,
            cells=(cell.name,),
            resources=cell.resources,
            seconds=planned.seconds,
            size=planned.size,
            memory_mib=planned.memory_mib,
        )
    return tuple(out.values())


@dataclass(frozen=True)
class Outlook:
    """Sums over the jobs whose cost is known.

    Attributes:
        seconds: Of all jobs one after the other.
        longest: Of the longest chain of jobs that need each other: no number of processes takes less.
        at_least: Lower bound for ``processes`` processes.
        size: Bytes that will be added to the cache.
        jobs: Number of jobs.
        unknown: Number of jobs whose time is unknown.
        unknown_size: Number of jobs whose size is unknown.
    """

    seconds: float
    longest: float
    at_least: float
    processes: int
    size: int
    jobs: int
    unknown: int
    unknown_size: int


def outlook(plan: Plan, processes: int = 1) -> Outlook:
    """Add up a plan."""
    jobs = schedule(plan)
    seconds = sum(job.seconds or 0.0 for job in jobs)
    ends: dict[str, float] = {}
    for job in jobs:
        begins = max((ends.get(need, 0.0) for need in job.needs), default=0.0)
        ends[job.name] = begins + (job.seconds or 0.0)
    longest = max(ends.values(), default=0.0)
    return Outlook(
        seconds=seconds,
        longest=longest,
        at_least=max(seconds / processes, longest),
        processes=processes,
        size=sum(job.size or 0 for job in jobs),
        jobs=len(jobs),
        unknown=sum(job.seconds is None for job in jobs),
        unknown_size=sum(job.size is None for job in jobs),
    )


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
    look = _Planner(build, store).look(cell)
    found = look.planned
    explanation = Explanation(cell.name, found.standing, found.reason, found.hint, found.result)
    if look.waiting is None and found.standing != "done":
        # Without its data, or where it is impossible, it has no stages.
        return explanation
    graph, difference = build(cell.request), look.difference
    if look.waiting is not None and found.standing == "missing":
        difference = nearest_difference(list(look.waiting.missing.values()), store)
    steps = []
    for stage in graph.stages.values():
        is_result = stage is graph.result
        there = found.standing == "done" if is_result else store.contains(stage.name, stage.key)
        then = difference.then if difference is not None and difference.now == stage.key else ""
        of = stage.title.removeprefix(stage.name).strip(": ").removeprefix("of ")
        steps.append(Step(stage.name, of, stage.key, there, then))
    compared = "" if difference is None else difference.of or str(found.result)
    return replace(explanation, steps=tuple(steps), difference=difference, compared=compared)
