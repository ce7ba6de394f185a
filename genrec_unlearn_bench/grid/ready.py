"""The grids that ship with the package, and finding the file of one."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from genrec_unlearn_bench.errors import UnknownName

__all__ = ["GRIDS", "GROUPS", "find_grid", "ready_grids"]

GRIDS = "genrec_unlearn_bench.tasks.grids"
GROUPS = "groups.yaml"


def ready_grids() -> dict[str, Path]:
    """The grids that ship, by name."""
    files = sorted(Path(str(entry)) for entry in resources.files(GRIDS).iterdir())
    return {path.stem: path for path in files if path.suffix == ".yaml" and path.name != GROUPS}


def find_grid(place: str) -> Path:
    """The file of a grid: the path of one, or the name of one that ships. Raises UnknownName."""
    ready = ready_grids()
    if place in ready:
        return ready[place]
    if place.endswith((".yaml", ".yml")) or Path(place).is_file():
        return Path(place)
    raise UnknownName("grid", place, ready)
