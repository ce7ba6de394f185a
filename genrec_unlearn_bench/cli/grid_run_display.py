"""What ``bench grid run`` shows: a line for each job, tables as they are complete, and how it ended."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.cli.console import duration, print_line, stdout
from genrec_unlearn_bench.cli.grid_status import running_lines
from genrec_unlearn_bench.grid.schedule import RESULT
from genrec_unlearn_bench.grid.status import SweepStatus, SweepView
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from genrec_unlearn_bench.executors.base import Failure, SweepOutcome
    from genrec_unlearn_bench.grid.plan import PlannedCell
    from genrec_unlearn_bench.grid.schedule import Job
    from genrec_unlearn_bench.grid.state import SweepFolder
    from genrec_unlearn_bench.pipeline.request import RunRequest

__all__ = ["Display", "EarlyTables", "document", "failure_lines"]

QUIET = 60.0
"""Seconds without a line after which plain output shows what runs and the time left."""
MAX_RUNNING = 12
BEAM = 10


class Display(Progress):
    """Lines on stderr."""

    def __init__(self, folder: SweepFolder, jobs: int) -> None:
        super().__init__()
        self.jobs = jobs
        self._view = SweepView(folder)
        self._shown = time.monotonic()

    def info(self, text: str) -> None:
        self._shown = time.monotonic()
        print_line(text, stderr=True)

    def ended(self, job: Job, outcome: SweepOutcome) -> None:
        """Show that a job is over."""
        if job.name in outcome.done:
            how = duration(outcome.done[job.name].seconds)
        elif job.name in outcome.elsewhere:
            how = "done by another sweep"
        elif job.name in outcome.failed:
            failure = outcome.failed[job.name]
            how = f"{failure.how}: {failure.error.partition(chr(10))[0]}"
        else:
            how = f"skipped: {outcome.skipped.get(job.name, '')}"
        self.info(f"[{outcome.over}/{self.jobs}] {job.name}: {how}")

    def tick(self, outcome: SweepOutcome) -> None:
        """Called about once a second."""
        if time.monotonic() - self._shown >= QUIET:
            status = self._view.look()
            self.info("\n".join([self._summary(outcome, status), *running_lines(status, MAX_RUNNING)]))

    def _summary(self, outcome: SweepOutcome, status: SweepStatus) -> str:
        """``12 of 40 jobs · 1 failed, 2 skipped · about 3 h 05 min left``."""
        parts = [f"{len(outcome.done) + len(outcome.elsewhere)} of {self.jobs} jobs"]
        if outcome.failed or outcome.skipped:
            parts.append(f"{len(outcome.failed)} failed, {len(outcome.skipped)} skipped")
        if status.seconds_left is not None:
            parts.append(f"about {duration(status.seconds_left)} left")
        return " · ".join(parts)


class EarlyTables:
    """Shows the table of a task, backbone and seed when the last of its cells is over.

    Args:
        cells: Of the grid, those that are done already included.
    """

    def __init__(self, cells: Iterable[PlannedCell]) -> None:
        self._open: Counter[tuple[Any, ...]] = Counter()
        self._results: dict[tuple[Any, ...], dict[str, Path | None]] = defaultdict(dict)
        for planned in cells:
            block = _block(planned.cell.request)
            self._results[block][planned.cell.name] = None if planned.waits else planned.result
            self._open[block] += planned.waits

    def ended(self, job: Job, outcome: SweepOutcome) -> None:
        """Note that a job is over."""
        if job.until != RESULT:
            return
        block = _block(job.request)
        place = outcome.done[job.name].result if job.name in outcome.done else outcome.elsewhere.get(job.name)
        self._results[block][job.name] = Path(place) if place else None
        self._open[block] -= 1
        if self._open[block]:
            return
        from genrec_unlearn_bench.cli.run_table import run_table
        from genrec_unlearn_bench.errors import CorruptArtefact
        from genrec_unlearn_bench.pipeline.results import read_record

        records = []
        for result in filter(None, self._results[block].values()):
            try:
                records.append(read_record(result))
            except CorruptArtefact:
                # The next plan shows it as not done; a table is no place for that.
                continue
        if records:
            stdout().print(run_table(records, beam=BEAM))


def _block(request: RunRequest) -> tuple[Any, ...]:
    return (request.task, request.backbone, request.scale, request.suite, request.requests, request.seed)


def failure_lines(failure: Failure) -> list[str]:
    """What failed, why, and the end of its log."""
    return [
        f"{failure.how}: {failure.job.name} ({failure.attempts} attempts)",
        *(f"  {line}" for line in failure.error.splitlines()),
        "    the end of its log:",
        *(f"    | {line}" for line in failure.tail),
        f"  log: {failure.log}",
    ]


def document(outcome: SweepOutcome) -> dict[str, Any]:
    """The outcome as ``--json`` prints it."""
    return {
        "done": [
            {"job": name, "seconds": one.seconds, "result": one.result, "diverged": one.diverged}
            for name, one in outcome.done.items()
        ],
        "elsewhere": [{"job": name, "result": place} for name, place in outcome.elsewhere.items()],
        "failed": [{**vars(one), "job": name, "log": str(one.log)} for name, one in outcome.failed.items()],
        "skipped": [{"job": name, "reason": reason} for name, reason in outcome.skipped.items()],
        **{name: getattr(outcome, name) for name in ("left", "handed", "seconds", "storage", "interrupted")},
    }
