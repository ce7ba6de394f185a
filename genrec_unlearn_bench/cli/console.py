"""The terminal: tables on stdout, progress on stderr; bars where there is a terminal and plain lines elsewhere."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.launch import place
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichBars

__all__ = ["BarProgress", "LineProgress", "print_json", "progressing", "stdout"]

T = TypeVar("T")

PIPED_WIDTH = 120
"""Columns assumed where output is piped and nothing says otherwise; rich would take 80 and wrap tables."""

QUIET_SECONDS = 5.0
QUIET_SHARE = 0.2
"""How long plain output stays silent about a loop: five seconds, then a fifth of the time it has already taken, so that
a log of hours stays readable."""


def stdout() -> Console:
    """A console on stdout, wide enough for tables when piped. Brackets are text: titles and paths may hold them."""
    from rich.console import Console

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=PIPED_WIDTH if piped else None, highlight=False, soft_wrap=False, markup=False)


def print_json(content: Any) -> None:
    """Machine-readable output: JSON on stdout, nothing else there."""
    print(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


@contextmanager
def progressing() -> Iterator[Progress]:
    """Bars on a terminal, lines elsewhere; gone when the block ends, whatever ends it. Of several processes the first
    speaks."""
    if place() > 0:
        yield Progress()
        return
    if not sys.stderr.isatty():
        yield LineProgress()
        return
    bars = BarProgress()
    try:
        yield bars
    finally:
        bars.close()


class LineProgress(Progress):
    """One line now and then, for logs and pipes."""

    def info(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        total = total if total is not None else _length(sequence)
        began = told = time.monotonic()
        for done, part in enumerate(sequence):
            now = time.monotonic()
            if now - told >= max(QUIET_SECONDS, QUIET_SHARE * (now - began)):
                told = now
                share = f"{done}/{total} ({done / total:.0%})" if total else f"{done}"
                self.info(f"  {label}: {share}, {now - began:.0f} s")
            yield part


class BarProgress(Progress):
    """Rich bars on stderr. A bar vanishes when its loop ends; what is said stays above the bars."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: RichBars | None = None

    def info(self, text: str) -> None:
        if self._bars is None:
            print(text, file=sys.stderr, flush=True)
        else:
            self._bars.console.print(text, markup=False, highlight=False)

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        bars, outermost = self._opened()
        task = bars.add_task(label, total=total if total is not None else _length(sequence))
        try:
            for part in sequence:
                yield part
                bars.advance(task)
        finally:
            bars.remove_task(task)
            if outermost:
                self.close()

    def close(self) -> None:
        """Take the bars off the screen."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def _opened(self) -> tuple[RichBars, bool]:
        if self._bars is not None:
            return self._bars, False
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichBars

        self._bars = RichBars(
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bars.start()
        return self._bars, True


def _length(sequence: Iterable[Any]) -> int | None:
    try:
        return len(sequence)  # type: ignore[arg-type]
    except TypeError:
        return None
