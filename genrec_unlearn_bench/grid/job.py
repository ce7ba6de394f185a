"""The unit that an executor runs: stages that several cells share, or a cell's own remaining work.

Cells that share an original would all wait for the first of them to train it. A grid is therefore cut into jobs, those
that make shared stages first, each knowing which others have to be done before it. A job holds nothing but its request
and how far to go: everything else is in the store, so the same job may run in any process on any machine that sees the
store, and may be run again at any time.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.pipeline.request import RunRequest

__all__ = ["Job", "Until"]

Until = Literal["ground", "tokens", "original", "retrain", "result"]
"""How far a job goes: dataset, task and features; semantic IDs; the original; one retrained oracle; the cell's result.
Measurements belong to results: those of the original and the oracles are made by the reference rows' own cells."""


class Job(StrictModel):
    """One piece of work."""

    name: str
    """Unique within the sweep. A job that ends in a result has the name of its cell."""
    request: RunRequest
    """The cell; for shared stages, any of the cells that share them."""
    until: Until = "result"
    number: int = Field(default=0, ge=0)
    """Which oracle, where ``until`` is ``retrain``."""
    needs: tuple[str, ...] = ()
    """Jobs that have to be done first."""
    cells: tuple[str, ...] = ()
    """Cells that cannot be finished without it; its own name for a cell."""
    resources: Resources = Field(default_factory=Resources)
    seconds: float | None = None
    """Wall-clock it will take, estimated from earlier runs; None where nothing like it has been run."""
