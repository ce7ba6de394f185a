"""Brings many things from a place at once, a few at a time, and goes on past those that cannot be had."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from genrec_unlearn_bench.errors import BenchError, StorageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.submissions.pull.index import OfferedFile
from genrec_unlearn_bench.submissions.pull.place import Place, safe_path

__all__ = ["Brought", "Outcome", "bring_all", "bring_files", "clear"]

T = TypeVar("T")

AT_ONCE = 4
"""Connections to one server."""
GIVING_UP = 8
"""Faults in a row after which the rest is not tried: the server is gone."""

_ATTEMPTS = 100
"""At making a folder; each fails only if somebody else has removed its parent within microseconds."""

Outcome = Literal["new", "here already", "kept", "failed"]
"""``kept``: something else lies under that name here, and stays."""


@dataclass(frozen=True)
class Brought:
    """What became of one thing."""

    what: str
    outcome: Outcome
    fault: str = ""


def bring_all(
    things: Sequence[T], name: Callable[[T], str], bring: Callable[[T], Outcome], progress: Progress, label: str
) -> tuple[Brought, ...]:
    """Bring things in parallel. Faults are collected; a refusing file system ends it, as nothing more can be written.

    Raises StorageError.
    """
    done: list[Brought] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting: dict[Future[Outcome], T] = {pool.submit(bring, thing): thing for thing in things}
        try:
            done.extend(_outcomes(waiting, name, progress, label))
        finally:
            for future in waiting:
                future.cancel()
    missing = {name(thing) for thing in things} - {one.what for one in done}
    done += [Brought(what, "failed", "not tried any more") for what in sorted(missing)]
    return tuple(sorted(done, key=lambda one: one.what))


def bring_files(place: Place, at: str, files: dict[str, OfferedFile], draft: Path, parts: Path) -> None:
    """All files of a result or stage into a draft. What came lies in ``parts`` by its digest until the whole is there,
    so that an interrupted pull goes on with it."""
    for name in files:
        safe_path(at, name)
    _make(parts)
    for name, offered in files.items():
        part = parts / f"{offered.digest}.part"
        whole = parts / f"{offered.digest}.whole"
        if not whole.is_file():
            place.bring(at, name, offered, part)
            part.replace(whole)
        target = draft / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(whole, target)


def _make(parts: Path) -> None:
    """Make a folder whose empty parents another download may be removing just now (``clear``)."""
    for attempt in range(_ATTEMPTS):
        try:
            parts.mkdir(parents=True, exist_ok=True)
        except (
            FileNotFoundError,
            FileExistsError,
        ):  # The latter where a parent was there and is gone at the next look.
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def clear(parts: Path, top: Path) -> None:
    """Remove the parts of something that is whole now, and the folders above them that have become empty."""
    shutil.rmtree(parts, ignore_errors=True)
    with suppress(OSError):
        for folder in parts.parents:
            folder.rmdir()
            if folder == top:
                return


def _outcomes(
    waiting: dict[Future[Outcome], T], name: Callable[[T], str], progress: Progress, label: str
) -> Iterator[Brought]:
    in_a_row = 0
    for future in progress.track(label, as_completed(waiting), total=len(waiting)):
        what = name(waiting[future])
        try:
            yield Brought(what, future.result())
            in_a_row = 0
        except StorageError:
            raise
        except BenchError as fault:
            yield Brought(what, "failed", fault.render().replace("\n", ";"))
            in_a_row += 1
            if in_a_row >= GIVING_UP:
                return
