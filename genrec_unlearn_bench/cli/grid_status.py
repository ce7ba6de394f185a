"""``bench grid status``: how a sweep stands, from any terminal, while it runs and afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from genrec_unlearn_bench.cli.command import Output, first_lines
from genrec_unlearn_bench.cli.options import CacheDir
from genrec_unlearn_bench.progress_display import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genrec_unlearn_bench.grid.status import SweepStatus

MAX_RUNNING = 20
MAX_FAILED = 5

Grid = Annotated[str | None, Argument(help="Name or file of a grid (default: the one active last).", metavar="GRID")]
Failed = Annotated[bool, Option("--failed", help="Show all failed jobs, with the last lines of their logs.")]


def status(grid: Grid = None, failed: Failed = False, cache_dir: CacheDir = None) -> Output:
    """Show how a sweep stands: jobs by state, what runs where and since when, failures, time left, cells ready."""
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.state import find_sweep, sweeps
    from genrec_unlearn_bench.grid.status import sweep_status
    from genrec_unlearn_bench.store.store import default_cache

    cache = cache_dir or default_cache()
    found = find_sweep(cache, grid)
    others = [] if grid else [other.root.name for other in sweeps(cache) if other.root != found.root]
    # Jobs that a scheduler has ended cannot write that themselves.
    slurm_states(found)
    now = sweep_status(found)
    return Output({**now.model_dump(mode="json"), "others": others}, _lines(now, others, failed))


def running_lines(now: SweepStatus) -> list[str]:
    """The jobs that run, one a line."""
    found = []
    for job in now.running:
        where = f"{job.host} {job.place}".strip()
        attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
        late = f" ({job.late})" if job.late else ""
        found.append(f"  {job.job}: {job.stage or 'starting'}, {duration(job.seconds)}{attempt}, {where}{late}")
    return first_lines(found, most=MAX_RUNNING, more="--json has all")


def _lines(now: SweepStatus, others: list[str], all_failed: bool) -> list[str]:
    left = "" if now.seconds_left is None else f", about {duration(now.seconds_left)} left"
    found = [
        f"{now.grid}: " + ", ".join(f"{count} {state}" for state, count in now.counts.items() if count),
        f"cells ready: {now.ready} of {now.cells}{left}",
    ]
    if now.last is not None:
        found.append(f"last sign: {duration(max(0.0, time.time() - now.last))} ago")
    if now.results:
        found.append(f"results: {now.results}")
    if not now.moves and now.counts["queued"] + now.counts["lost"]:
        found.append(f"nothing runs; it goes on with: {now.command or 'bench grid run ' + now.grid}")
    if now.running:
        found += ["", "running:", *running_lines(now)]
    own = [job for job in now.failed if job.state != "skipped"]
    if own:
        skipped = len(now.failed) - len(own)
        found += ["", "failed:" + (f" ({skipped} more were skipped, as they need one of these)" if skipped else "")]
        listed = [failed_lines(job.job, job.state, job.error, job.attempt, job.log, job.tail) for job in own]
        heads = first_lines([head for head, *_ in listed], most=MAX_FAILED, more="--failed has all, with logs")
        found += [line for lines in listed for line in lines] if all_failed else heads
    return [*found, "", "other sweeps of this cache: " + ", ".join(others)] if others else found


def failed_lines(job: str, how: str, error: str, attempts: int, log: str, tail: Sequence[str]) -> list[str]:
    """A failed job with the end of its log."""
    first, *rest = error.splitlines() or [""]
    behind = [*rest, f"log: {log}", *(f"| {line}" for line in tail)]
    return [f"  {job}, attempt {attempts}: {how}: {first}", *(f"    {line}" for line in behind)]
