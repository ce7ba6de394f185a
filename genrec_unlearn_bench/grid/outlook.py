"""What the rest of a grid will take: time on one process and on several, and room on the disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.plan import Plan, PlannedCell, SharedStage

__all__ = ["Outlook", "outlook"]


@dataclass(frozen=True)
class Outlook:
    """Sums over what is known.

    Attributes:
        seconds: Of all jobs one after the other.
        longest: Of the longest chain of jobs each of which needs the one before: no number of processes takes less.
        at_least: The most that can be hoped for with so many processes.
        size: Bytes that will be added to the cache.
        jobs: How many there are.
        unknown: How many of them nothing like was run before; they are in no sum.
        unknown_size: Of how many nobody knows the size.
        rough: How many were told by stages that are like them and not the same.
        recorded: How many were told by results, in part at least, as the store knew nothing as like.
        machines: Where those results were made, in alphabetical order.
    """

    seconds: float
    longest: float
    at_least: float
    processes: int
    size: int
    jobs: int
    unknown: int
    unknown_size: int
    rough: int
    recorded: int
    machines: tuple[str, ...]


def outlook(plan: Plan, processes: int = 1) -> Outlook:
    """Add up a plan."""
    waiting: list[PlannedCell | SharedStage] = [*plan.shared, *(cell for cell in plan.cells if cell.waits)]
    seconds = sum(one.seconds or 0.0 for one in waiting)
    longest = _longest(plan)
    return Outlook(
        seconds=seconds,
        longest=longest,
        at_least=max(seconds / processes, longest),
        processes=processes,
        size=sum(one.size or 0 for one in waiting),
        jobs=len(waiting),
        unknown=sum(one.seconds is None for one in waiting),
        unknown_size=sum(one.size is None for one in waiting),
        rough=sum(one.seconds is not None and not one.alike for one in waiting),
        recorded=sum(one.seconds is not None and bool(one.machines) for one in waiting),
        machines=tuple(sorted(frozenset().union(*(one.machines for one in waiting)))),
    )


def _longest(plan: Plan) -> float:
    """Seconds until the last job could end if there were as many processes as jobs."""
    ends: dict[str, float] = {}
    # Stages stand behind those they need.
    for stage in plan.shared:
        ends[stage.name] = max((ends[need] for need in stage.needs), default=0.0) + (stage.seconds or 0.0)
    return max(
        (
            max((ends[need] for need in cell.needs), default=0.0) + (cell.seconds or 0.0)
            for cell in plan.cells
            if cell.waits
        ),
        default=0.0,
    )
