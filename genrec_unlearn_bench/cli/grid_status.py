"""``bench grid status``: how a sweep stands, from any terminal, while it runs and afterwards."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, cast, get_args

from typer import Argument, Option

from genrec_unlearn_bench.cli.command import Output, first_lines, sheet
from genrec_unlearn_bench.cli.options import CacheDir
from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.progress_display import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

    from genrec_unlearn_bench.grid.status import Axis, SweepStatus

LOOK_SECONDS = 2.0
ASK_SECONDS = 60.0
"""Time between two questions to Slurm, which has all its users to answer."""
TAILS = 12
"""Lines of a failed job's log with --failed."""
MAX_RUNNING = 20
MAX_FAILED = 5

Grid = Annotated[str | None, Argument(help="Name or file of a grid (default: the one active last).", metavar="GRID")]
Once = Annotated[bool, Option("--once", help="Print it once and stop; so is what is piped.")]
Failed = Annotated[bool, Option("--failed", help="Show all failed jobs, with the last lines of their logs.")]
By = Annotated[str, Option(help="Count by backbone, task, method or stage.")]


def status(
    grid: Grid = None,
    by: By = "backbone",
    failed: Failed = False,
    once: Once = False,
    cache_dir: CacheDir = None,
) -> Output:
    """Show how a sweep stands: jobs by state, what runs where and since when, failures, time left, cells ready.

    On a terminal the table stays and is kept up to date until nothing moves any more, or until Ctrl-C, which ends the
    view and not the sweep.
    """
    from genrec_unlearn_bench.executors.slurm import slurm_states
    from genrec_unlearn_bench.grid.state import find_sweep, sweeps
    from genrec_unlearn_bench.grid.status import Axis, sweep_status
    from genrec_unlearn_bench.store.store import default_cache

    one_of("axis", by, get_args(Axis))
    cache = cache_dir or default_cache()
    found = find_sweep(cache, grid)
    others = [] if grid else [other.facts().grid for other in sweeps(cache) if other.root != found.root]
    # Jobs that a scheduler has ended cannot write that themselves.
    slurm_states(found)

    def look() -> SweepStatus:
        return sweep_status(found, by=cast("Axis", by), tails=TAILS if failed else 0)

    def watch(console: Console) -> None:
        from rich.live import Live

        if once or not console.is_terminal:
            console.print(_drawn(now, others, failed), soft_wrap=True)
            return
        seen, asked = now, time.monotonic()
        # The view may be ended; what it showed stays on the terminal.
        with (
            suppress(KeyboardInterrupt),
            Live(_drawn(now, others, failed), console=console, auto_refresh=False) as live,
        ):
            while seen.moves:
                time.sleep(LOOK_SECONDS)
                if time.monotonic() - asked > ASK_SECONDS:
                    slurm_states(found)
                    asked = time.monotonic()
                seen = look()
                live.update(_drawn(seen, others, failed), refresh=True)

    now = look()
    return Output({**now.model_dump(mode="json"), "others": others}, [watch])


def running_lines(now: SweepStatus, most: int = MAX_RUNNING) -> list[str]:
    """The jobs that run, one a line."""
    found = []
    for job in now.running:
        where = f"{job.host} {job.place}".strip()
        attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
        late = f" ({job.late})" if job.late else ""
        found.append(f"  {job.job}: {job.stage or 'starting'}, {duration(job.seconds)}{attempt}, {where}{late}")
    return first_lines(found, most=most, more="--json has all")


def _drawn(now: SweepStatus, others: list[str], all_failed: bool) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    groups = {**now.groups, "all": now.counts} if len(now.groups) > 1 else now.groups
    rows = [(name, *(str(count or "·") for count in counts.values())) for name, counts in groups.items()]
    table = sheet(rows, ("", *now.counts), title=f"{now.grid}: jobs", right=[*now.counts])
    left = "" if now.seconds_left is None else f", about {duration(now.seconds_left)} left"
    found = [f"cells ready: {now.ready} of {now.cells}{left}"]
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
    found += ["", "other sweeps of this cache: " + ", ".join(others)] if others else []
    return Group(table, Text("\n".join(found)))


def failed_lines(job: str, how: str, error: str, attempts: int, log: str, tail: Sequence[str]) -> list[str]:
    """A failed job with the end of its log."""
    first, *rest = error.splitlines() or [""]
    behind = [*rest, f"log: {log}", *(f"| {line}" for line in tail)]
    return [f"  {job}, attempt {attempts}: {how}: {first}", *(f"    {line}" for line in behind)]
