"""What of a grid is done, missing, stale or impossible, and what the rest will take. Computes and writes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from genrec_unlearn_bench.runs.grid.cell import GridCell
    from genrec_unlearn_bench.runs.grid.job import Until
    from genrec_unlearn_bench.runs.request import RunRequest

__all__ = ["Plan", "PlannedCell", "SharedStage", "Standing"]

Standing = Literal["done", "missing", "stale", "impossible"]
"""``done``: the result that would come out now is there. ``stale``: a result of the cell is there, made from something
else (other code, configuration or data). ``impossible``: the cell cannot be run as it is asked for."""


@dataclass(frozen=True)
class PlannedCell:
    """One cell and how it stands.

    Attributes:
        reason: Why it stands so, in a sentence; empty for cells that are done.
        mend: What can be done about it, where it is impossible.
        result: The result's folder: the one that is there, or for a stale cell the newest that is.
        seconds: Wall-clock that its own stages will take, without shared ones; 0 where it is done, None where nothing
            like it has been run.
        size: Bytes that its own stages will take in the cache; None where that is not known.
        memory_mib: Peak memory of cells like it; None where that is not known.
        needs: Names of the shared stages that have to be made for it.
    """

    cell: GridCell
    standing: Standing
    reason: str = ""
    result: Path | None = None
    seconds: float | None = None
    mend: str = ""
    size: int | None = None
    memory_mib: float | None = None
    needs: tuple[str, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether it is to be run."""
        return self.standing in ("missing", "stale")


@dataclass(frozen=True)
class SharedStage:
    """A stage that several cells stand on and that is not there yet.

    Attributes:
        name: Unique within the plan, for people: ``original: industrial, tiger, small, seed 0``.
        until: How far a job has to go to make it.
        number: Which oracle, where it is one.
        request: A cell that shares it.
        cells: Names of all cells that wait for it.
        needs: Names of the shared stages that have to be made before it.
        seconds, size, memory_mib: As for cells.
    """

    name: str
    until: Until
    number: int
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
        """How many cells stand how."""
        found = Counter(planned.standing for planned in self.cells)
        order: tuple[Standing, ...] = ("done", "missing", "stale", "impossible")
        return {standing: found[standing] for standing in order}
