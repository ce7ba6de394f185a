"""What ``bench collect`` leaves beside the results it gathered: every cell of the grid, there or why not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.files import atomic_text

__all__ = ["FILE", "OPTION", "Collected", "CollectedCell", "Whereabouts", "read_collected", "write_collected"]

FILE = "collected.json"
OPTION = "--out"

Whereabouts = Literal[
    "there", "damaged", "stale", "running", "queued", "failed", "lost", "skipped", "missing", "impossible"
]
"""``there``: gathered. ``damaged``: its result does not match its digests. ``stale``: a result of the cell is there,
made from something else. ``lost``: it ended without a word. ``missing``: nothing was told of it."""

ORDER: tuple[Whereabouts, ...] = (
    "there",
    "damaged",
    "stale",
    "running",
    "queued",
    "failed",
    "lost",
    "skipped",
    "missing",
    "impossible",
)


class CollectedCell(StrictModel):
    """One cell of the grid."""

    cell: str
    state: Whereabouts
    reason: str = ""
    """Why it is not there, in a sentence."""
    place: str = ""
    """Folder of its result, relative to this file, with ``/``."""
    key: str = ""
    digest: str = ""
    """blake2b-256 of its ``result.json``."""
    diverged: bool = False


class Collected(StrictModel):
    """A grid as far as it is there. Has no time in it: gathered twice with nothing new, it is the same."""

    grid: str
    suite_version: str
    cells: tuple[CollectedCell, ...]

    @property
    def counts(self) -> dict[Whereabouts, int]:
        """How many cells are where; without those that are nowhere."""
        found = Counter(cell.state for cell in self.cells)
        return {state: found[state] for state in ORDER if found[state]}

    def of(self, *states: Whereabouts) -> tuple[CollectedCell, ...]:
        """The cells that are there."""
        return tuple(cell for cell in self.cells if cell.state in states)


def write_collected(out: Path, collected: Collected) -> None:
    """Write ``collected.json``. Raises StorageError."""
    atomic_text(out / FILE, collected.model_dump_json(indent=1) + "\n", OPTION)


def read_collected(out: Path) -> Collected | None:
    """What was gathered into a folder before; None where nothing was.

    Raises UsageError where the file is something else.
    """
    path = out / FILE
    try:
        return Collected.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise UsageError(
            f"the folder has a {FILE} that bench collect did not write",
            where=str(path),
            hint="name another folder (--out)",
        ) from None
