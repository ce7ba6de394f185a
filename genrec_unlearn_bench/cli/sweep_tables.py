"""The tables of a sweep: those of ``bench run``, each when its last cell is there, and what came of it all."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.cli.console import stdout
from genrec_unlearn_bench.cli.sweep_display import told_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import RenderableType
    from rich.table import Table

    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.grid.plan import PlannedCell
    from genrec_unlearn_bench.grid.sweep import SweepOutcome
    from genrec_unlearn_bench.pipeline.request import RunRequest

__all__ = ["EarlyTables", "conclude", "document"]

LISTED = 30
"""Cells that the last table lists one by one; of more it counts."""

BEAM = 10


class EarlyTables:
    """Shows the table of a task, backbone and seed when the last of its cells is over.

    Args:
        cells: Of the grid, those that are done already included.
        show: Where a table goes.
    """

    def __init__(self, cells: Iterable[PlannedCell], show: Callable[[RenderableType], None]) -> None:
        self._show = show
        self._open: dict[tuple[Any, ...], set[str]] = defaultdict(set)
        self._order: dict[tuple[Any, ...], list[str]] = defaultdict(list)
        self._results: dict[str, Path] = {}
        for planned in cells:
            block = _block(planned.cell.request)
            self._order[block].append(planned.cell.name)
            if planned.waits:
                self._open[block].add(planned.cell.name)
            elif planned.standing == "done" and planned.result is not None:
                self._results[planned.cell.name] = planned.result

    def ended(self, job: Job, outcome: SweepOutcome) -> None:
        """Note that a job is over."""
        block = _block(job.request)
        if job.until != "result" or job.name not in self._open[block]:
            return
        self._open[block].discard(job.name)
        place = outcome.done[job.name].result if job.name in outcome.done else outcome.elsewhere.get(job.name)
        if place:
            self._results[job.name] = Path(place)
        if not self._open[block]:
            self._draw(block)

    def _draw(self, block: tuple[Any, ...]) -> None:
        from genrec_unlearn_bench.cli.run_table import run_table
        from genrec_unlearn_bench.errors import CorruptArtefact
        from genrec_unlearn_bench.pipeline.results import read_record

        records = []
        for name in self._order[block]:
            if name in self._results:
                try:
                    records.append(read_record(self._results[name]))
                except CorruptArtefact:
                    # Shown as not done by the next plan; a table is no place for that.
                    continue
        if records:
            self._show(run_table(records, beam=BEAM))


def _block(request: RunRequest) -> tuple[Any, ...]:
    return (request.task, request.backbone, request.scale, request.suite, request.requests, request.seed)


def _final(outcome: SweepOutcome, jobs: Iterable[Job], results: Path) -> Table:
    """How the cells ended: one by one, or counted by task and backbone where there are many."""
    cells = [job for job in jobs if job.until == "result"]
    return _listed(outcome, cells, results) if len(cells) <= LISTED else _counted(outcome, cells)


def _listed(outcome: SweepOutcome, cells: list[Job], results: Path) -> Table:
    table = _table("cell", "", "time", "result")
    for job in cells:
        ended = outcome.done.get(job.name)
        seconds = told_seconds(ended.seconds) if ended else ""
        place = ended.result if ended else outcome.elsewhere.get(job.name, "")
        table.add_row(job.name, _state(job, outcome), seconds, _inside(place, results))
    return table


def _inside(place: str, results: Path) -> str:
    """A result's folder as seen from where results lie."""
    path = Path(place)
    return str(path.relative_to(results)) if place and path.is_relative_to(results) else place


def _counted(outcome: SweepOutcome, cells: list[Job]) -> Table:
    states = ("done", "failed", "skipped", "left")
    counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(states, 0))
    for job in cells:
        counts[job.request.task, job.request.backbone][_state(job, outcome).partition(" ")[0]] += 1
    table = _table("task", "backbone", *states)
    for place, found in counts.items():
        table.add_row(*place, *(str(found[state]) if found[state] else "·" for state in states))
    return table


def _state(job: Job, outcome: SweepOutcome) -> str:
    if job.name in outcome.done:
        return "done"
    if job.name in outcome.elsewhere:
        return "done elsewhere"
    if job.name in outcome.failed:
        return "failed"
    return "skipped" if job.name in outcome.skipped else "left"


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def conclude(outcome: SweepOutcome, jobs: list[Job], results: Path) -> None:
    """Print how it ended, and of every failure the end of its log."""
    console = stdout()
    console.print(_final(outcome, jobs, results))
    for failure in outcome.failed.values():
        console.print(f"{failure.how}: {failure.job.name} ({failure.attempts} attempts)", soft_wrap=True)
        for line in [*failure.error.splitlines(), "  the end of its log:", *(f"  | {row}" for row in failure.tail)]:
            console.print(f"  {line}", soft_wrap=True)
        console.print(f"  log: {failure.log}", soft_wrap=True)


def document(outcome: SweepOutcome) -> dict[str, Any]:
    """The outcome as ``--json`` prints it."""
    return {
        "done": [{"job": name, "seconds": one.seconds, "result": one.result} for name, one in outcome.done.items()],
        "elsewhere": [{"job": name, "result": place} for name, place in outcome.elsewhere.items()],
        "failed": [
            {
                "job": name,
                "how": one.how,
                "error": one.error,
                "attempts": one.attempts,
                "log": str(one.log),
                "tail": list(one.tail),
            }
            for name, one in outcome.failed.items()
        ],
        "skipped": [{"job": name, "reason": reason} for name, reason in outcome.skipped.items()],
        "left": list(outcome.left),
        "handed": outcome.handed,
        "seconds": outcome.seconds,
        "storage": outcome.storage,
        "interrupted": outcome.interrupted,
    }
