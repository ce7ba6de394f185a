"""Gathers what there is of a grid into one folder, at any time: while it runs, after it failed, from any machine.

A result goes over whole or not at all, its digests checked on both sides. What a folder holds is never written over:
gathering again adds what is new.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench import __version__
from genrec_unlearn_bench.errors import CorruptArtefact, UsageError
from genrec_unlearn_bench.files import atomic_folder, file_digest, folder_digest
from genrec_unlearn_bench.grid.collected import (
    OPTION,
    Collected,
    CollectedCell,
    Whereabouts,
    read_collected,
    write_collected,
)
from genrec_unlearn_bench.grid.status import SweepView
from genrec_unlearn_bench.pipeline.results import RECORD, read_record, result_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from genrec_unlearn_bench.grid.plan import PlannedCell
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
    from genrec_unlearn_bench.pipeline.record import RunRecord
    from genrec_unlearn_bench.progress import Progress

__all__ = ["collect"]

_OTHER_CONTENT = 8
"""Folders named one by one in an error."""


def collect(
    grid: str, cells: Sequence[PlannedCell], sweep: SweepFolder | None, out: Path, progress: Progress
) -> Collected:
    """Gather the results of a grid's cells into ``out``, as ``<task>/<backbone>/<method>/…``, with ``collected.json``.

    Args:
        sweep: What was told of the cells that are not done; None where no sweep was started.

    Raises:
        UsageError: ``out`` holds another grid, or other content where a result belongs; then nothing is written.
        StorageError: It cannot be written.
    """
    before = read_collected(out)
    if before is not None and before.grid != grid:
        raise UsageError(
            f"the folder holds the grid {before.grid!r}", where=str(out), hint="name another folder (--out)"
        )
    told = _told(sweep)
    found: list[CollectedCell] = []
    take: list[tuple[Path, Path]] = []
    taken: set[Path] = set()
    clashes = []
    for planned in progress.track("looking", cells):
        cell = planned.cell.name
        if planned.standing != "done" or planned.result is None:
            found.append(_absent(planned, told))
            continue
        try:
            record = read_record(planned.result)
        except CorruptArtefact as fault:
            found.append(CollectedCell(cell=cell, state="damaged", reason=f"{fault.what} ({fault.where})"))
            continue
        target = result_folder(out, record)
        if target.exists():
            if _content(target) != _content(planned.result):
                clashes.append(target)
        elif target not in taken:
            # Two cells of a grid may come to the same result.
            take.append((planned.result, target))
            taken.add(target)
        found.append(_there(cell, planned.result, record, target.relative_to(out)))
    _refuse(clashes)
    for source, target in progress.track("copying", take):
        _copy(source, target)
    collected = Collected(grid=grid, suite_version=__version__, cells=tuple(found))
    write_collected(out, collected)
    return collected


def _told(sweep: SweepFolder | None) -> Mapping[str, tuple[Whereabouts, str]]:
    """What is known of cells that are not done: how they stand in the sweep, and why."""
    if sweep is None:
        return {}
    status = SweepView(sweep).look()
    told: dict[str, tuple[Whereabouts, str]] = {}
    for job in status.running:
        told[job.job] = ("running", f"{job.stage or 'starting'} on {job.host}{f' ({job.late})' if job.late else ''}")
    for failed in status.failed:
        states: dict[str, Whereabouts] = {"skipped": "skipped", "lost": "lost"}
        lines = failed.error.splitlines()
        told[failed.job] = (states.get(failed.state, "failed"), lines[0] if lines else "")
    if status.waits:
        told.update({name: ("queued", "") for name in status.queued if name not in told})
    return told


def _absent(planned: PlannedCell, told: Mapping[str, tuple[Whereabouts, str]]) -> CollectedCell:
    name = planned.cell.name
    if planned.standing == "impossible":
        return CollectedCell(cell=name, state="impossible", reason=planned.reason)
    known = told.get(name)
    if known is not None:
        return CollectedCell(cell=name, state=known[0], reason=known[1] or planned.reason)
    return CollectedCell(cell=name, state="stale" if planned.standing == "stale" else "missing", reason=planned.reason)


def _there(cell: str, result: Path, record: RunRecord, place: Path) -> CollectedCell:
    return CollectedCell(
        cell=cell,
        state="there",
        place=place.as_posix(),
        key=record.key,
        digest=file_digest(result / RECORD),
        diverged=record.diverged,
    )


def _refuse(clashes: Sequence[Path]) -> None:
    if not clashes:
        return
    listing = "".join(f"\n  - {folder}" for folder in clashes[:_OTHER_CONTENT])
    more = f"\n  … and {len(clashes) - _OTHER_CONTENT} more" if len(clashes) > _OTHER_CONTENT else ""
    raise UsageError(
        f"{len(clashes)} folders hold other content than the results that belong there:{listing}{more}",
        hint="a cell that was run again has other times; remove these folders, or name another one (--out)",
    )


def _copy(source: Path, target: Path) -> None:
    with atomic_folder(target, OPTION) as draft:
        for path in _files(source):
            place = draft / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        read_record(draft)


def _content(folder: Path) -> str:
    return folder_digest({path.relative_to(folder).as_posix(): file_digest(path) for path in _files(folder)})


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
