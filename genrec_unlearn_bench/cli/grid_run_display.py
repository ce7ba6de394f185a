"""What ``bench sweep`` shows: a live view on a terminal and plain lines elsewhere, tables as they are complete."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.cli.console import duration, print_line, stdout
from genrec_unlearn_bench.cli.status import running_lines
from genrec_unlearn_bench.grid.schedule import RESULT
from genrec_unlearn_bench.grid.status import SweepStatus, SweepView
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from genrec_unlearn_bench.executors.base import SweepOutcome
    from genrec_unlearn_bench.grid.plan import PlannedCell
    from genrec_unlearn_bench.grid.schedule import Job
    from genrec_unlearn_bench.grid.state import SweepFolder
    from genrec_unlearn_bench.pipeline.request import RunRequest

__all__ = ["Display", "EarlyTables", "displayed", "document", "show_outcome"]

QUIET = 60.0
"""Seconds without a line after which plain output shows what runs and the time left."""
FRESH = 5.0
"""Seconds for which a look at the sweep's folder is good enough."""
MAX_RUNNING = 12
MAX_LISTED = 30
"""Cells of the last table; of more there is no table."""
BEAM = 10


class Display(Progress):
    """Lines on stderr."""

    def __init__(self, folder: SweepFolder, jobs: int) -> None:
        super().__init__()
        self.jobs = jobs
        self._view = SweepView(folder)
        self._seen: tuple[float, SweepStatus] | None = None
        self._shown = time.monotonic()

    def info(self, text: str) -> None:
        self._shown = time.monotonic()
        print_line(text, stderr=True)

    def show(self, table: RenderableType) -> None:
        """A table, between the lines."""
        self._shown = time.monotonic()
        stdout().print(table)

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
            status = self.look()
            self.info("\n".join([self.summary(outcome, status), *running_lines(status, MAX_RUNNING)]))

    def look(self) -> SweepStatus:
        """The sweep as it stood a few seconds ago."""
        now = time.monotonic()
        if self._seen is None or now - self._seen[0] > FRESH:
            self._seen = (now, self._view.look())
        return self._seen[1]

    def summary(self, outcome: SweepOutcome, status: SweepStatus) -> str:
        """``12 of 40 jobs · 1 failed, 2 skipped · about 3 h 05 min left``."""
        parts = [f"{len(outcome.done) + len(outcome.elsewhere)} of {self.jobs} jobs"]
        if outcome.failed or outcome.skipped:
            parts.append(f"{len(outcome.failed)} failed, {len(outcome.skipped)} skipped")
        if status.seconds_left is not None:
            parts.append(f"about {duration(status.seconds_left)} left")
        return " · ".join(parts)


class _LiveDisplay(Display):
    """A bar and the running jobs below the lines, on a terminal."""

    def __init__(self, folder: SweepFolder, jobs: int, console: Console, live: Live) -> None:
        super().__init__(folder, jobs)
        self._console = console
        self._live = live
        self._began = time.monotonic()

    def info(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, table: RenderableType) -> None:
        self._console.print(table)

    def tick(self, outcome: SweepOutcome) -> None:
        from rich.columns import Columns
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        status = self.look()
        text = f"{self.summary(outcome, status)} · {duration(time.monotonic() - self._began)}"
        bar = ProgressBar(total=max(1, self.jobs), completed=outcome.over, width=40)
        lines = [Text(line, no_wrap=True, overflow="ellipsis") for line in running_lines(status, MAX_RUNNING)]
        self._live.update(Group(Columns([bar, Text(text)]), *lines))


@contextmanager
def displayed(folder: SweepFolder, jobs: int) -> Iterator[Display]:
    """The display for this terminal; gone when the block ends, whatever ends it."""
    if not sys.stderr.isatty():
        yield Display(folder, jobs)
        return
    from rich.console import Console
    from rich.live import Live

    # On one console with the tables where both go to the terminal, so that they do not cut each other.
    console = stdout() if sys.stdout.isatty() else Console(stderr=True, markup=False)
    with Live(console=console, transient=True, refresh_per_second=2, redirect_stdout=False) as live:
        yield _LiveDisplay(folder, jobs, console, live)


class EarlyTables:
    """Shows the table of a task, backbone and seed when the last of its cells is over.

    Args:
        cells: Of the grid, those that are done already included.
        show: Where a table goes.
    """

    def __init__(self, cells: Iterable[PlannedCell], show: Callable[[RenderableType], None]) -> None:
        self._show = show
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
            self._show(run_table(records, beam=BEAM))


def _block(request: RunRequest) -> tuple[Any, ...]:
    return (request.task, request.backbone, request.scale, request.suite, request.requests, request.seed)


def show_outcome(outcome: SweepOutcome, jobs: list[Job], results: Path) -> None:
    """Print how the cells ended, unless they are too many, and of every failure the end of its log."""
    console = stdout()
    cells = [job for job in jobs if job.until == RESULT]
    if len(cells) <= MAX_LISTED:
        console.print(_final_table(outcome, cells, results))
    for failure in outcome.failed.values():
        console.print(f"{failure.how}: {failure.job.name} ({failure.attempts} attempts)", soft_wrap=True)
        for line in [*failure.error.splitlines(), "  the end of its log:", *(f"  | {row}" for row in failure.tail)]:
            console.print(f"  {line}", soft_wrap=True)
        console.print(f"  log: {failure.log}", soft_wrap=True)


def _final_table(outcome: SweepOutcome, cells: list[Job], results: Path) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in ("cell", "", "time", "result"):
        table.add_column(column, overflow="fold")
    for job in cells:
        ended = outcome.done.get(job.name)
        state = "failed" if job.name in outcome.failed else "skipped" if job.name in outcome.skipped else "left"
        folder = ended.result if ended else outcome.elsewhere.get(job.name, "")
        if folder:
            state = "done" if ended else "done elsewhere"
            folder = str(Path(folder).relative_to(results) if Path(folder).is_relative_to(results) else folder)
        table.add_row(job.name, state, duration(ended.seconds) if ended else "", folder)
    return table


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
