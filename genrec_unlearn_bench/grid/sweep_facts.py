"""What a sweep says of itself once, in ``sweep.json``: where it was started and where its results go."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.executors.trackers import Tracking
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["SweepFacts", "read_facts", "write_facts"]

FILE = "sweep.json"
OPTION = "--cache-dir"


class SweepFacts(StrictModel):
    """One call of ``bench sweep``; a later call of the same grid replaces it."""

    grid: str
    """Name of the grid."""
    started: float
    """Seconds since the epoch."""
    host: str
    command: str
    """The call, as it can be given again."""
    results_dir: str
    data_dir: str = ""
    """Empty where datasets were looked for in the usual places."""
    tuned_dir: str = ""
    device: str = ""
    """As asked for; empty where the grid decides."""
    executor: str = ""
    tracking: Tracking | None = None
    """Which trackers its jobs tell of their losses."""
    cells: int = 0
    """Cells of the grid that can be run."""
    done: int = 0
    """Of those, how many were done before this call; they have no job."""


def write_facts(folder: SweepFolder, facts: SweepFacts) -> None:
    """Keep what this call is. Raises StorageError."""
    atomic_text(folder.root / FILE, facts.model_dump_json(indent=2) + "\n", OPTION)


def read_facts(folder: SweepFolder) -> SweepFacts | None:
    """What the last call said of itself; None where it said nothing that can be read."""
    path: Path = folder.root / FILE
    try:
        return SweepFacts.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
