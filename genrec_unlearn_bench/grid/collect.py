"""Gathers the results of a grid into one folder, at any time: while it runs, after it failed, from any machine.

A result is copied whole or not at all, its digests checked on both sides. What the folder holds is never overwritten:
gathering again adds what is new. ``collected.json`` beside the results names every cell, with the reason where its
result is not there.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import ValidationError

from genrec_unlearn_bench import __version__
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact, UsageError
from genrec_unlearn_bench.files import atomic_folder, atomic_text, file_digest, folder_digest
from genrec_unlearn_bench.grid.status import sweep_status
from genrec_unlearn_bench.pipeline.results import RECORD, read_record, result_folder

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.plan import PlannedCell
    from genrec_unlearn_bench.grid.state import SweepFolder
    from genrec_unlearn_bench.progress import Progress

FILE = "collected.json"
OPTION = "--out"

Whereabouts = Literal[
    "there", "damaged", "stale", "running", "queued", "failed", "lost", "skipped", "missing", "impossible"
]
"""``there``: gathered. ``damaged``: its result does not match its digests. ``stale``: a result of the cell is there,
made from something else. ``missing``: nothing is known of it. The others are states of its job."""


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
    """A grid as far as it was gathered. Holds no time: gathered twice with nothing new, it is the same."""

    grid: str
    suite_version: str
    cells: tuple[CollectedCell, ...]

    @property
    def counts(self) -> dict[Whereabouts, int]:
        """Number of cells by state, without states that no cell is in."""
        found = Counter(cell.state for cell in self.cells)
        return {state: found[state] for state in get_args(Whereabouts) if found[state]}

    def of(self, *states: Whereabouts) -> tuple[CollectedCell, ...]:
        """The cells in one of these states."""
        return tuple(cell for cell in self.cells if cell.state in states)


def collect(grid: str, cells: Sequence[PlannedCell], sweep: SweepFolder, out: Path, progress: Progress) -> Collected:
    """Gather the results of a grid's cells into ``out``, as ``<task>/<backbone>/<method>/…``, with ``collected.json``.

    The sweep, where there is one, explains cells that are not done. Raises UsageError where ``out`` holds another grid,
    or other content where a result belongs, and then writes nothing; StorageError.
    """
    _check_grid(out, grid)
    states = _job_states(sweep)
    found = [_looked_at(planned, states) for planned in progress.track("looking", cells)]
    # Two cells of a grid may have the same result.
    pairs = zip(found, cells, strict=True)
    results = {out / cell.place: planned.result for cell, planned in pairs if cell.place and planned.result}
    there = {place for place in results if place.exists()}
    clashes = [str(place) for place in results if place in there and _content(place) != _content(results[place])]
    if clashes:
        raise UsageError(
            f"{len(clashes)} folders hold other content than the results that belong there: {', '.join(clashes)}",
            hint="a cell that was run again has other times; remove these folders, or name another one (--out)",
        )
    for place in progress.track("copying", [place for place in results if place not in there]):
        with atomic_folder(place, OPTION) as draft:
            shutil.copytree(results[place], draft, dirs_exist_ok=True, copy_function=shutil.copyfile)
            read_record(draft)
    collected = Collected(grid=grid, suite_version=__version__, cells=tuple(found))
    atomic_text(out / FILE, collected.model_dump_json(indent=1) + "\n", OPTION)
    return collected


def _check_grid(out: Path, grid: str) -> None:
    """Raise UsageError where a folder holds what was gathered of another grid, or another kind of file."""
    path, hint = out / FILE, "name another folder (--out)"
    try:
        before = Collected.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return
    except ValidationError:
        what = f"the folder has a {FILE} that bench grid collect did not write"
        raise UsageError(what, where=str(path), hint=hint) from None
    if before.grid != grid:
        raise UsageError(f"the folder holds the grid {before.grid!r}", where=str(out), hint=hint)


def _job_states(sweep: SweepFolder) -> Mapping[str, tuple[str, str]]:
    """State and reason by job."""
    status = sweep_status(sweep)
    queued = dict.fromkeys(status.queued if status.waits else (), ("queued", ""))
    running = {
        job.job: ("running", f"{job.stage or 'starting'} on {job.host} {job.late}".rstrip()) for job in status.running
    }
    return queued | running | {job.job: (job.state, job.error.partition("\n")[0]) for job in status.failed}


def _looked_at(planned: PlannedCell, states: Mapping[str, tuple[str, str]]) -> CollectedCell:
    name, unknown = planned.cell.name, (planned.standing, "")
    if planned.result is None or planned.standing != "done":
        state, reason = states.get(name, unknown) if planned.waits else unknown
        return CollectedCell.model_validate({"cell": name, "state": state, "reason": reason or planned.reason})
    try:
        record = read_record(planned.result)
    except CorruptArtefact as fault:
        return CollectedCell(cell=name, state="damaged", reason=f"{fault.what} ({fault.where})")
    return CollectedCell(
        cell=name,
        state="there",
        place=result_folder(Path(), record).as_posix(),
        key=record.key,
        digest=file_digest(planned.result / RECORD),
        diverged=record.diverged,
    )


def _content(folder: Path) -> str:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return folder_digest({path.relative_to(folder).as_posix(): file_digest(path) for path in paths})
