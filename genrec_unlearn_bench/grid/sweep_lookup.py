"""Finds the sweeps of a cache by their grids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.grid.sweep_facts import read_facts
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["KnownSweep", "find_sweep", "known_sweeps"]

MOVING = ("jobs.jsonl", "sweep.json", "events")
"""What is written when something happens; a folder's time changes with each new file in it."""


@dataclass(frozen=True)
class KnownSweep:
    """A sweep of a cache.

    Attributes:
        name: Its grid's.
        moved: When something was written last, roughly, in seconds since the epoch.
    """

    name: str
    folder: SweepFolder
    moved: float


def known_sweeps(cache: Path) -> list[KnownSweep]:
    """All sweeps of a cache, the one that moved last in front."""
    place = cache / "sweeps"
    folders = [path for path in place.iterdir() if (path / "jobs.jsonl").is_file()] if place.is_dir() else []
    found = [KnownSweep(_name(SweepFolder(path)), SweepFolder(path), _moved(path)) for path in folders]
    return sorted(found, key=lambda sweep: (-sweep.moved, sweep.name))


def find_sweep(cache: Path, grid: str | None) -> SweepFolder:
    """The sweep of a grid, by the grid's name or file; the one that moved last where none is named.

    Raises:
        UsageError: The cache has no sweep, or the file is no grid.
        UnknownName: It has none of that grid.
    """
    known = known_sweeps(cache)
    if not known:
        raise UsageError(
            "no sweep was started with this cache", where=str(cache), hint="bench sweep GRID, or name its --cache-dir"
        )
    if grid is None:
        return known[0].folder
    name = _grid_name(grid)
    for sweep in known:
        if name in (sweep.name, sweep.folder.root.name):
            return sweep.folder
    raise UnknownName("sweep", name, [sweep.name for sweep in known])


def _grid_name(text: str) -> str:
    path = Path(text)
    if path.suffix not in (".yaml", ".yml"):
        return text
    if not path.is_file():
        return path.stem
    from genrec_unlearn_bench.grid.spec import read_grid

    return read_grid(text).name


def _name(folder: SweepFolder) -> str:
    facts = read_facts(folder)
    return facts.grid if facts else folder.root.name


def _moved(folder: Path) -> float:
    events = folder / "events"
    latest = [entry.stat().st_mtime for entry in events.iterdir()] if events.is_dir() else []
    return max([*((folder / name).stat().st_mtime for name in MOVING if (folder / name).exists()), *latest])
