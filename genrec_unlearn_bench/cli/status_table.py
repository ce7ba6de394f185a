"""How ``bench status`` looks: one table of counts, one line for each job that runs or failed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from genrec_unlearn_bench.grid.status import FailedJob, RunningJob, SweepStatus

__all__ = ["failures", "lines", "table", "told_time"]

MOST_RUNNING = 20
MOST_FAILED = 5


def table(now: SweepStatus) -> Table:
    """Jobs by group and state."""
    from rich import box
    from rich.table import Table

    from genrec_unlearn_bench.grid.status import SHOWN

    shown = Table(title=f"{now.grid}: jobs", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    shown.add_column("", no_wrap=True)
    for name in SHOWN:
        shown.add_column(name, justify="right")
    rows = {**now.groups, "all": now.counts} if len(now.groups) > 1 else now.groups
    for group, counts in rows.items():
        shown.add_row(group, *(str(counts[name]) if counts[name] else "·" for name in SHOWN))
    return shown


def lines(now: SweepStatus) -> list[str]:
    """What the table does not say: cells, time, results, and what runs."""
    left = "" if now.seconds_left is None else f", about {told_time(now.seconds_left)} left"
    found = [f"cells ready: {now.ready} of {now.cells}{left}"]
    if now.last is not None:
        found.append(f"last sign: {told_time(max(0.0, time.time() - now.last))} ago")
    if now.results:
        found.append(f"results: {now.results}")
    if not now.moves and now.counts["queued"] + now.counts["lost"]:
        found.append(f"nothing runs; it goes on with: {now.command or 'bench sweep ' + now.grid}")
    if now.running:
        found += ["", "running:"]
        found += [f"  {_running(job)}" for job in now.running[:MOST_RUNNING]]
        found += _more(len(now.running), MOST_RUNNING, "--json has all")
    return found


def failures(now: SweepStatus, *, all_of_them: bool) -> list[str]:
    """Jobs that failed or were lost; those that were skipped for that are counted."""
    own = [job for job in now.failed if job.state != "skipped"]
    if not own:
        return []
    skipped = len(now.failed) - len(own)
    found = ["", "failed:" + (f" ({skipped} more were skipped, as they need one of these)" if skipped else "")]
    for job in own if all_of_them else own[:MOST_FAILED]:
        found += _failed(job, whole=all_of_them)
    return found if all_of_them else [*found, *_more(len(own), MOST_FAILED, "--failed has all, with their logs")]


def told_time(seconds: float) -> str:
    """``42 s``, ``12 min``, ``3 h 05 min``, ``2 d 4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def _running(job: RunningJob) -> str:
    where = f"{job.host} {job.place}".strip()
    attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
    late = f" ({job.late})" if job.late else ""
    return f"{job.job}: {job.stage or 'starting'}, {told_time(job.seconds)}{attempt}, {where}{late}"


def _failed(job: FailedJob, *, whole: bool) -> list[str]:
    error = job.error.splitlines() or [""]
    head = f"  {job.job}, attempt {job.attempt}: {job.state}: {error[0]}"
    if not whole:
        return [head]
    return [
        head,
        *(f"    {line}" for line in error[1:]),
        f"    log: {job.log}",
        *(f"    | {line}" for line in job.tail),
    ]


def _more(count: int, most: int, where: str) -> list[str]:
    return [f"  and {count - most} more ({where})"] if count > most else []
