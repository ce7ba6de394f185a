"""What ``bench sweep`` shows while it runs: a live bar and the jobs that run on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from genrec_unlearn_bench.cli.console import stdout
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

    from genrec_unlearn_bench.grid.elsewhere import Elsewhere
    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.grid.sweep import SweepOutcome

__all__ = ["Display", "displayed", "told_seconds"]

QUIET = 60.0
"""Seconds without a line after which plain output says what runs."""

MOST = 12
"""Running jobs shown at a time."""


class Display(Progress):
    """Lines on stderr."""

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.jobs = jobs
        self._told = time.monotonic()

    def info(self, text: str) -> None:
        self._told = time.monotonic()
        print(text, file=sys.stderr, flush=True)

    def show(self, table: RenderableType) -> None:
        """A table, between the lines."""
        self._told = time.monotonic()
        stdout().print(table)

    def ended(self, job: Job, outcome: SweepOutcome) -> None:
        """Say that a job is over."""
        over = len(outcome.done) + len(outcome.elsewhere) + len(outcome.failed) + len(outcome.skipped)
        self.info(f"[{over}/{self.jobs}] {job.name}: {_how(job, outcome)}")

    def tick(self, running: dict[str, float], outcome: SweepOutcome, elsewhere: Elsewhere) -> None:
        """Look at what runs."""
        if running and time.monotonic() - self._told >= QUIET:
            self.info("\n".join(f"  {line}" for line in _running(running, elsewhere)))


class LiveDisplay(Display):
    """A bar and the running jobs below the lines, on a terminal."""

    def __init__(self, jobs: int, console: Console, live: Live) -> None:
        super().__init__(jobs)
        self._console = console
        self._live = live
        self._began = time.monotonic()

    def info(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, table: RenderableType) -> None:
        self._console.print(table)

    def tick(self, running: dict[str, float], outcome: SweepOutcome, elsewhere: Elsewhere) -> None:
        from rich.columns import Columns
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        done, bad = len(outcome.done) + len(outcome.elsewhere), len(outcome.failed) + len(outcome.skipped)
        parts = [f"{done} of {self.jobs} jobs"]
        parts += [f"{len(outcome.failed)} failed, {len(outcome.skipped)} skipped"] if bad else []
        parts += [told_seconds(time.monotonic() - self._began)]
        bar = ProgressBar(total=max(1, self.jobs), completed=done + bad, width=40)
        lines = [Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in _running(running, elsewhere)]
        self._live.update(Group(Columns([bar, Text(" · ".join(parts))]), *lines))


@contextmanager
def displayed(jobs: int) -> Iterator[Display]:
    """The display for this terminal, or none; gone when the block ends, whatever ends it."""
    if not sys.stderr.isatty():
        yield Display(jobs)
        return
    from rich.console import Console
    from rich.live import Live

    # On one console with the tables where both go to the terminal, so that they do not cut each other.
    console = stdout() if sys.stdout.isatty() else Console(stderr=True, markup=False)
    with Live(console=console, transient=True, refresh_per_second=2, redirect_stdout=False) as live:
        yield LiveDisplay(jobs, console, live)


def told_seconds(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _how(job: Job, outcome: SweepOutcome) -> str:
    if job.name in outcome.done:
        return told_seconds(outcome.done[job.name].seconds)
    if job.name in outcome.elsewhere:
        return "done by another sweep"
    if job.name in outcome.failed:
        failure = outcome.failed[job.name]
        return f"{failure.how}: {failure.error.splitlines()[0] if failure.error else ''}"
    return f"skipped: {outcome.skipped.get(job.name, '')}"


def _running(running: dict[str, float], elsewhere: Elsewhere) -> list[str]:
    now = time.monotonic()
    told = [
        " · ".join(part for part in (name, told_seconds(now - began), elsewhere.stage(name)) if part)
        for name, began in list(running.items())[:MOST]
    ]
    return told + ([f"and {len(running) - MOST} more"] if len(running) > MOST else [])
