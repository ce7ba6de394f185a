"""From a plan to jobs: shared stages first, then the cells that need them, in the grid's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.grid.spec import Resources
from genrec_unlearn_bench.pipeline.request import RunRequest

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.plan import Plan, PlannedCell, SharedStage

RESULT = "result"


class Job(StrictModel):
    """One piece of work: a cell, or a stage that cells share. Plain JSON, so that it can be handed to any executor."""

    name: str
    """Unique within the sweep: that of the cell or of the shared stage."""
    request: RunRequest
    """The cell; for a shared stage, one of the cells that need it."""
    until: str = RESULT
    """Name of the stage that the job ends with: ``original``, ``retrain``, …; ``result`` for a cell."""
    keys: tuple[str, ...] = ()
    """Keys of the stages to be made, for a shared stage."""
    needs: tuple[str, ...] = ()
    """Jobs that have to be done first."""
    cells: tuple[str, ...] = ()
    """Cells that cannot be finished without it."""
    resources: Resources = Field(default_factory=Resources)
    seconds: float | None = None
    """Estimated wall-clock; None where it is unknown."""


def schedule(plan: Plan) -> tuple[Job, ...]:
    """Jobs of the cells that are missing or stale and of the stages that they share, each behind all it needs.

    The shared stages of a cell stand right before the first cell that needs them, so tables are complete early.
    """
    resources = {planned.cell.name: planned.cell.resources for planned in plan.cells}
    shared = {
        stage.name: Job(
            name=stage.name,
            request=stage.request,
            until=stage.until,
            keys=stage.keys,
            needs=stage.needs,
            cells=stage.cells,
            resources=_largest([resources[name] for name in stage.cells if name in resources]),
            seconds=stage.seconds,
        )
        for stage in plan.shared
    }
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
        )
    return tuple(out.values())


def _largest(found: Sequence[Resources]) -> Resources:
    """The most of each resource; a limit that one of them does not have, none has."""
    fields: dict[str, Any] = {}
    for name in Resources.model_fields if found else ():
        values = {getattr(each, name) for each in found}
        fields[name] = None if None in values else max(values)
    return Resources(**fields)


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
    waiting: list[SharedStage | PlannedCell] = [*plan.shared, *(planned for planned in plan.cells if planned.waits)]
    seconds = sum(one.seconds or 0.0 for one in waiting)
    ends: dict[str, float] = {}
    for job in schedule(plan):
        begins = max((ends.get(need, 0.0) for need in job.needs), default=0.0)
        ends[job.name] = begins + (job.seconds or 0.0)
    longest = max(ends.values(), default=0.0)
    return Outlook(
        seconds=seconds,
        longest=longest,
        at_least=max(seconds / processes, longest),
        processes=processes,
        size=sum(one.size or 0 for one in waiting),
        jobs=len(waiting),
        unknown=sum(one.seconds is None for one in waiting),
        unknown_size=sum(one.size is None for one in waiting),
    )
