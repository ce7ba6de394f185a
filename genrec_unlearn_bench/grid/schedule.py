"""From a plan to jobs, in the order in which they are to be tried.

The order gives tables early: seed 0 everywhere before seed 1, one task and backbone after the other, and of each the
stages that its cells share, the rows that every table needs, and then the cheapest methods first. Needs say what has
to be done before; the order is what an executor prefers among those whose needs are done.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.grid.settled import recommender_of
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.plan import Plan, PlannedCell, SharedStage
    from genrec_unlearn_bench.pipeline.request import RunRequest

__all__ = ["FIRST_ROWS", "schedule"]

FIRST_ROWS = ("original", "retrain")
"""Measured on the way to every other row of their table, so they come first, and the others find that done."""


class _Table(NamedTuple):
    """The cells that are measured against the same original and oracles."""

    seed: int
    place: tuple[str, str]
    """Task and backbone."""
    footing: str
    """The rest of what a recommender and its measurements depend on."""


def schedule(plan: Plan) -> tuple[Job, ...]:
    """The jobs of the cells that are missing or stale, and of the stages that they share; each behind all it needs."""
    stages = _Stages(plan)
    tables = _tables(plan.cells)
    out: dict[str, Job] = {}
    for table in tables.values():
        wanted = dict.fromkeys(name for planned in table for name in planned.needs)
        for job in stages.jobs(wanted):
            out.setdefault(job.name, job)
        for job in _cell_jobs(table, stages):
            out[job.name] = job
    return tuple(out.values())


def _tables(cells: Iterable[PlannedCell]) -> dict[_Table, list[PlannedCell]]:
    """Waiting cells by table: by seed, then in the grid's order of tasks and backbones."""
    found: dict[_Table, list[PlannedCell]] = defaultdict(list)
    places: dict[tuple[str, str], int] = {}
    for planned in cells:
        if not planned.waits:
            continue
        request = planned.cell.request
        place = (request.task, request.backbone)
        places.setdefault(place, len(places))
        found[_Table(request.seed, place, recommender_of(request))].append(planned)
    return dict(sorted(found.items(), key=lambda entry: (entry[0].seed, places[entry[0].place])))


def _cell_jobs(table: Sequence[PlannedCell], stages: _Stages) -> Iterator[Job]:
    """The table's own jobs: original, retrain, the other reference rows, then methods by what they will take."""
    first = {
        planned.cell.request.method: planned
        for planned in table
        if planned.cell.request.method in FIRST_ROWS
        # Without oracles no row is measured against one, and the row retrain trains its own.
        and (planned.cell.request.method != "retrain" or planned.cell.request.oracle_seeds)
    }
    for planned in sorted(table, key=_turn):
        cell = planned.cell
        before = (
            FIRST_ROWS[: FIRST_ROWS.index(cell.request.method)] if cell.request.method in FIRST_ROWS else FIRST_ROWS
        )
        # The row retrain needs the row original itself, and a row all shared stages that its table needs.
        rows = [first[row] for row in before if row in first][-1:]
        known = {name for row in rows for name in row.needs}
        needs = stages.nearest(name for name in planned.needs if name not in known)
        yield Job(
            name=cell.name,
            request=cell.request,
            needs=(*needs, *(row.cell.name for row in rows)),
            cells=(cell.name,),
            resources=cell.resources,
            seconds=planned.seconds,
        )


def _turn(planned: PlannedCell) -> tuple[int, float]:
    method = planned.cell.request.method
    rank = FIRST_ROWS.index(method) if method in FIRST_ROWS else 2 if method in REFERENCE_ROWS else 3
    return rank, math.inf if planned.seconds is None else planned.seconds


@dataclass(frozen=True)
class _Made:
    """A shared stage's job, everything that is done when it is done, and its place in the plan."""

    job: Job
    covers: frozenset[str]
    turn: int


class _Stages:
    """The shared stages of a plan as jobs."""

    def __init__(self, plan: Plan) -> None:
        self._cells = {planned.cell.name: planned for planned in plan.cells if planned.waits}
        self._made: dict[str, _Made] = {}
        grounds: dict[str, str] = {}
        for stage in plan.shared:
            needs = list(stage.needs)
            dataset = self._dataset(stage)
            if stage.until == "ground" and dataset in grounds:
                # Tasks of one dataset prepare it once: the others would only wait for the first.
                needs.append(grounds[dataset])
            if stage.until == "ground":
                grounds.setdefault(dataset, stage.name)
            self._made[stage.name] = self._of(stage, needs)

    def jobs(self, names: Iterable[str]) -> list[Job]:
        """The jobs of these stages and of all that they need, in the plan's order, which has needs first."""
        wanted = {each for name in names if name in self._made for each in (name, *self._made[name].covers)}
        return [self._made[name].job for name in sorted(wanted, key=lambda name: self._made[name].turn)]

    def nearest(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of these stages those that no other of them needs anyway."""
        there = [name for name in dict.fromkeys(names) if name in self._made]
        covered = frozenset[str]().union(*(self._made[name].covers for name in there))
        return tuple(name for name in there if name not in covered)

    def _of(self, stage: SharedStage, needs: Iterable[str]) -> _Made:
        nearest = self.nearest(needs)
        job = Job(
            name=stage.name,
            request=_plain(stage.request),
            until=stage.until,
            number=stage.number,
            needs=nearest,
            cells=stage.cells,
            resources=self._resources(stage),
            seconds=stage.seconds,
        )
        covers = frozenset(nearest).union(*(self._made[name].covers for name in nearest))
        return _Made(job, covers, turn=len(self._made))

    def _dataset(self, stage: SharedStage) -> str:
        """What the stage's task stands on; the task itself where the cell does not say."""
        sharing = self._cells.get(stage.cells[0]) if stage.cells else None
        return str(sharing.cell.axes.get("dataset", stage.request.task)) if sharing else stage.request.task

    def _resources(self, stage: SharedStage) -> Resources:
        """What the row gets that this stage is the model of, where it waits too; else the most that a cell gets."""
        sharing = [self._cells[name].cell for name in stage.cells if name in self._cells]
        row = "retrain" if stage.until == "retrain" else "original"
        cells = [cell for cell in sharing if cell.request.method == row] or sharing
        return _most([cell.resources for cell in cells])


def _plain(request: RunRequest) -> RunRequest:
    """The request for shared stages alone: without what belongs to one method, or to measurements."""
    plain = {"method": "original", "method_set": {}, "ruleset": "default"}
    return request.model_copy(update={**plain, "requests": 1, "shadows": 0, "measure": (), "measure_set": {}})


def _most(found: Sequence[Resources]) -> Resources:
    """The most of each; a limit that one of them does not have, none has."""
    distinct = list({id(each): each for each in found}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else Resources()
    fields = {name: [getattr(each, name) for each in distinct] for name in Resources.model_fields}
    return Resources.model_validate({name: _largest(values) for name, values in fields.items()})


def _largest(values: Sequence[object]) -> object:
    return None if None in values else max(values)  # type: ignore[type-var]
