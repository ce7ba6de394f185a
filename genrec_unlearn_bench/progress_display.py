"""Progress for people: bars on a terminal, lines with the time left elsewhere (logs, pipes, notebooks)."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import ByteSize

from genrec_unlearn_bench.errors import printable
from genrec_unlearn_bench.progress import Progress, process_index

if TYPE_CHECKING:
    from rich.progress import Progress as RichBars

    from genrec_unlearn_bench.store.store import StageStore

T = TypeVar("T")

QUIET_SECONDS = 5.0
QUIET_SHARE = 0.2
"""How long plain output stays silent about a loop: five seconds, then a fifth of the time it has already taken, so that
a log of hours stays readable."""


def print_line(text: str, *, stderr: bool = False) -> None:
    """A line as it is, neither wrapped nor read as markup; control characters in it are escaped."""
    print(printable(text, keep="\n\t"), file=sys.stderr if stderr else sys.stdout, flush=stderr)


def duration(seconds: float) -> str:
    """Time for people: ``42 s``, ``12 min``, ``3.4 h``, ``4.2 d``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 86400:.1f} d"


def format_bytes(number: float) -> str:
    """Bytes with a unit: ``12.3 MiB``."""
    return ByteSize(int(number)).human_readable(separator=" ")


@contextmanager
def progressing() -> Iterator[Progress]:
    """Bars on a terminal, lines elsewhere; removed however the block ends. Of several processes the first prints."""
    if process_index() > 0:
        yield Progress()
        return
    if not sys.stderr.isatty():
        yield LineProgress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichBars

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    name, console = TextColumn("  {task.description}", markup=False), Console(stderr=True)
    # What commands print on stdout stays there.
    with RichBars(name, *columns, console=console, transient=True, redirect_stdout=False) as bars:
        yield BarProgress(bars)


@contextmanager
def open_store(cache_dir: Path | None) -> Iterator[tuple[StageStore, Progress]]:
    """The store of stages in a folder (default: the user's), and progress on the terminal while the block runs."""
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    with progressing() as progress:
        yield StageStore(cache_dir or default_cache(), progress), progress


class LineProgress(Progress):
    """Progress of long loops as occasional lines with the time left, for logs and pipes."""

    def info(self, text: str) -> None:
        print_line(text, stderr=True)

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        total = total or length_hint(sequence) or None
        began = printed = time.monotonic()
        for done, part in enumerate(sequence):
            now = time.monotonic()
            if now - printed >= max(QUIET_SECONDS, QUIET_SHARE * (now - began)):
                printed = now
                self.info(f"  {label}: {_state(done, total, now - began)}")
            yield part


class BarProgress(Progress):
    """Rich bars on stderr. A bar vanishes when its loop ends; printed lines stay above the bars."""

    def __init__(self, bars: RichBars) -> None:
        super().__init__()
        self._bars = bars

    def info(self, text: str) -> None:
        self._bars.console.print(printable(text, keep="\n"), markup=False, highlight=False, soft_wrap=True)

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        task = self._bars.add_task(printable(label), total=total or length_hint(sequence) or None)
        try:
            for part in sequence:
                yield part
                self._bars.advance(task)
        finally:
            self._bars.remove_task(task)


def _state(done: int, total: int | None, seconds: float) -> str:
    if not total:
        return f"{done}, {duration(seconds)}"
    left = f", {duration(seconds * (total - done) / done)} left" if done else ""
    return f"{done}/{total} ({done / total:.0%}), {duration(seconds)}{left}"
