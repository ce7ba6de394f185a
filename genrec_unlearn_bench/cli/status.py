"""``bench status``: how a sweep stands, from any terminal, while it runs and afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from genrec_unlearn_bench.cli.console import print_json, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, Debug
from genrec_unlearn_bench.errors import UnknownName

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.status import Axis, SweepStatus, SweepView
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
    from genrec_unlearn_bench.grid.sweep_lookup import KnownSweep

__all__ = ["status"]

ASK_SECONDS = 60.0
"""Time between two questions to Slurm, which has all its users to answer."""
TAILS = 12
"""Lines of a failed job's log with --failed."""

Grid = Annotated[
    str | None,
    typer.Argument(help="The grid: its name, or its file (default: the one that moved last).", metavar="GRID"),
]
Once = Annotated[bool, typer.Option("--once", help="Print it once and stop; so is what is piped.")]
Failed = Annotated[bool, typer.Option("--failed", help="Show all failed jobs, with the last lines of their logs.")]
By = Annotated[str, typer.Option(help="Count by backbone, task, method or stage.")]
Every = Annotated[float, typer.Option(help="Seconds between two looks.", min=0.2)]


@handled
def status(
    grid: Grid = None,
    by: By = "backbone",
    failed: Failed = False,
    once: Once = False,
    every: Every = 2.0,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show how a sweep stands: jobs by state, what runs where and since when, failures, time left, cells ready.

    On a terminal the table stays and is kept up to date until nothing moves any more, or until Ctrl-C, which ends the
    view and not the sweep.
    """
    from genrec_unlearn_bench.grid.status import Axis, SweepView
    from genrec_unlearn_bench.grid.sweep_lookup import find_sweep, known_sweeps
    from genrec_unlearn_bench.store.store import default_cache

    if by not in get_args(Axis):
        raise UnknownName("axis", by, get_args(Axis))
    cache = cache_dir or default_cache()
    found = find_sweep(cache, grid)
    others = [] if grid else [other for other in known_sweeps(cache) if other.folder.root != found.root]
    _hear(found)
    view = SweepView(found)
    axis, tails = cast("Axis", by), TAILS if failed else 0
    if as_json:
        _as_json(view.look(by=axis, tails=tails), others)
    elif once or not stdout().is_terminal:
        _print(view.look(by=axis, tails=tails), others, all_failed=failed)
    else:
        _follow(found, view, axis, tails, others, every)


def _hear(folder: SweepFolder) -> None:
    """Have Slurm say what became of jobs that cannot say it themselves any more."""
    from genrec_unlearn_bench.executors.slurm_states import slurm_states

    slurm_states(folder)


def _as_json(now: SweepStatus, others: list[KnownSweep]) -> None:
    content: dict[str, Any] = now.model_dump(mode="json")
    print_json({**content, "others": [other.name for other in others]})


def _print(now: SweepStatus, others: list[KnownSweep], *, all_failed: bool) -> None:
    from genrec_unlearn_bench.cli.status_table import failures, lines, table

    console = stdout()
    console.print(table(now))
    for line in [*lines(now), *failures(now, all_of_them=all_failed), *_named(others)]:
        console.print(line, soft_wrap=True)


def _follow(
    folder: SweepFolder, view: SweepView, axis: Axis, tails: int, others: list[KnownSweep], every: float
) -> None:
    """Redraw until nothing moves."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from genrec_unlearn_bench.cli.status_table import failures, lines, table

    def drawn(now: SweepStatus) -> Group:
        told = [*lines(now), *failures(now, all_of_them=bool(tails)), *_named(others)]
        return Group(table(now), *(Text(line, overflow="ellipsis", no_wrap=True) for line in told))

    now = view.look(by=axis, tails=tails)
    asked = time.monotonic()
    try:
        with Live(drawn(now), console=stdout(), auto_refresh=False) as live:
            while now.moves:
                time.sleep(every)
                if time.monotonic() - asked > ASK_SECONDS:
                    _hear(folder)
                    asked = time.monotonic()
                now = view.look(by=axis, tails=tails)
                live.update(drawn(now), refresh=True)
    except KeyboardInterrupt:
        # The view has ended; what it showed stays on the terminal.
        return


def _named(others: list[KnownSweep]) -> list[str]:
    if not others:
        return []
    return ["", "other sweeps of this cache: " + ", ".join(other.name for other in others)]
