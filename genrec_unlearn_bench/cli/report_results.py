"""Where the verbs that read results find them: folders that are named, ``results``, or what ships with the suite."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.reporting.board import Board
from genrec_unlearn_bench.reporting.results import Loaded, Result, load_results

__all__ = ["Gathered", "gathered"]

SHOWN = 10
"""Broken records that are named one by one."""


@dataclass(frozen=True)
class Gathered:
    """Results, and what could not be read."""

    results: tuple[Result, ...]
    faults: tuple[str, ...]

    def told(self, board: Board) -> Board:
        """The board, with the number of broken records among what was left out."""
        if not self.faults:
            return board
        number = len(self.faults)
        note = f"{number} {'record' if number == 1 else 'records'} that cannot be read"
        return Board(board.blocks, (*board.left_out, note))


def gathered(folders: Sequence[Path] | None, *, published: bool, skip_broken: bool) -> Gathered:
    """All results of a call.

    Args:
        folders: Named on the call; ``results`` where it exists and none are named, else what ships with the suite.
        published: Whether to add what ships with the suite: its own results and the submissions.

    Raises:
        DataMissing: There is nothing to read.
        CorruptArtefact: Some records cannot be read, unless ``skip_broken``; then they are named on stderr.
    """
    own = list(folders or ())
    if not own and Path("results").is_dir():
        own = [Path("results")]
    with _no_collection():
        parts = [load_results(own, skip_broken=skip_broken)] if own else []
        if published or not own:
            parts += _shipped(skip_broken=skip_broken)
    faults = tuple(fault for part in parts for fault in part.faults)
    for fault in faults[:SHOWN]:
        print(f"left out: {fault}", file=sys.stderr)
    if len(faults) > SHOWN:
        print(f"left out: … and {len(faults) - SHOWN} more", file=sys.stderr)
    results = tuple(result for part in parts for result in part.results)
    if not results:
        raise DataMissing(
            "there is no result to show",
            where=", ".join(map(str, own)) or None,
            hint="run something first (bench run), or name a folder with results (--results-dir)",
        )
    return Gathered(results, faults)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Leave the garbage collector out: records make millions of objects and no cycle, and looking for cycles among them
    takes 40 % of the reading (0.77 and 0.44 ms for a record of 41 KB)."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _shipped(*, skip_broken: bool) -> list[Loaded]:
    from genrec_unlearn_bench.submissions.verification import published_sources

    with resources.as_file(resources.files("genrec_unlearn_bench.leaderboard")) as root:
        return [
            load_results([folder], source=source, skip_broken=skip_broken) for source, folder in published_sources(root)
        ]
