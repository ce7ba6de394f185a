"""The terminal: tables on stdout, progress and errors on stderr; bars on a terminal and plain lines elsewhere."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

from genrec_unlearn_bench.errors import printable
from genrec_unlearn_bench.launch import place
from genrec_unlearn_bench.pipeline.error_mapping import to_user_error
from genrec_unlearn_bench.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichBars

    from genrec_unlearn_bench.store.store import StageStore

__all__ = [
    "BarProgress",
    "Card",
    "LineProgress",
    "Sheet",
    "duration",
    "handled",
    "open_store",
    "print_first",
    "print_json",
    "print_line",
    "progressing",
    "stdout",
]

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
_AFTER_INTERRUPT = "interrupted: nothing half-written was left; run the same command again to go on where it stopped"

PIPED_WIDTH = 120
"""Columns assumed where output is piped and nothing says otherwise; rich would take 80 and wrap tables."""

MOST_LINES = 10

QUIET_SECONDS = 5.0
QUIET_SHARE = 0.2
"""How long plain output stays silent about a loop: five seconds, then a fifth of the time it has already taken, so that
a log of hours stays readable."""

_NOT_SHOWN = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control and bidi characters that JSON allows in a string."""


def handled(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a verb: every exception becomes a message on stderr and a stable exit code.

    0 done, 1 a cell failed, 2 the call is wrong, 3 protocols do not match, 130 interrupted. The verb's option ``debug``
    shows tracebacks.
    """

    @functools.wraps(verb)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            with _interruptible():
                result = verb(*arguments, **options)
                sys.stdout.flush()
                return result
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            # Whoever read our output has gone (`bench ls | head`); flushing at exit would only fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt as fault:
            _report(fault, _AFTER_INTERRUPT, options)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as fault:
            error = to_user_error(fault)
            _report(fault, f"error: {error.render()}", options)
            raise typer.Exit(error.exit_code) from None

    return call


@contextmanager
def _interruptible() -> Iterator[None]:
    """While a verb runs, Ctrl-C and a polite kill raise KeyboardInterrupt, so that drafts and locks are cleaned up.

    Before and after, the console script's own handlers end the process at once (start.py), also where the interpreter
    is shutting down. Handlers that somebody else has installed stay.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if getattr(handler, "__module__", "").endswith("cli.start")]
    for number in ours:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _report(fault: BaseException, message: str, options: dict[str, object]) -> None:
    if options.get("debug"):
        traceback.print_exception(fault)
    # Plain print: a path in the message must not be wrapped or read as markup.
    print(message, file=sys.stderr)


def stdout() -> Console:
    """A console on stdout, wide enough for tables when piped.

    Brackets are text, not markup: titles and paths may hold them. Control characters in texts are shown escaped.
    """
    from rich.console import Console
    from rich.segment import Segment

    class EscapingConsole(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **options):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(printable(segment.text, keep="\n"), segment.style)

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return EscapingConsole(width=PIPED_WIDTH if piped else None, highlight=False, soft_wrap=False, markup=False)


def print_json(content: Any) -> None:
    """Machine-readable output: JSON on stdout, nothing else there. ASCII where stdout cannot show more."""
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(content, indent=2, ensure_ascii=not unicode, allow_nan=False)
    print(_NOT_SHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_line(text: str, *, stderr: bool = False) -> None:
    """A line as it is, neither wrapped nor read as markup; control characters in it are escaped."""
    print(printable(text, keep="\n\t"), file=sys.stderr if stderr else sys.stdout, flush=stderr)


def print_first(texts: Sequence[str], label: str, *, stderr: bool = False) -> None:
    """Ten lines of a list at most, each after its label, and how many more there are."""
    more = [f"… and {len(texts) - MOST_LINES} more"] if len(texts) > MOST_LINES else []
    for text in [*texts[:MOST_LINES], *more]:
        print_line(f"{label}: {text}", stderr=stderr)


def duration(seconds: float) -> str:
    """Time for people: ``42 s``, ``12 min``, ``3.4 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def progressing() -> Iterator[Progress]:
    """Bars on a terminal, lines elsewhere; removed however the block ends. Of several processes the first prints."""
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


@contextmanager
def open_store(cache_dir: Path | None, shared: Path | None = None) -> Iterator[tuple[StageStore, Progress]]:
    """The store of stages in a folder (default: the user's), and progress on the terminal while the block runs."""
    from genrec_unlearn_bench.store.inventory import old_store_notice
    from genrec_unlearn_bench.store.store import StageStore, default_cache

    root = cache_dir or default_cache()
    with progressing() as progress:
        if notice := old_store_notice(root):
            progress.info(notice)
        yield StageStore(root, progress, shared=shared), progress


class LineProgress(Progress):
    """Progress of long loops as occasional lines with the time left, for logs and pipes."""

    def info(self, text: str) -> None:
        print_line(text, stderr=True)

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        total = total if total is not None else _length(sequence)
        began = printed = time.monotonic()
        for done, part in enumerate(sequence):
            now = time.monotonic()
            if now - printed >= max(QUIET_SECONDS, QUIET_SHARE * (now - began)):
                printed = now
                self.info(f"  {label}: {_state(done, total, now - began)}")
            yield part


class BarProgress(Progress):
    """Rich bars on stderr. A bar vanishes when its loop ends; printed lines stay above the bars."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: RichBars | None = None

    def info(self, text: str) -> None:
        if self._bars is None:
            print_line(text, stderr=True)
        else:
            self._bars.console.print(printable(text, keep="\n"), markup=False, highlight=False)

    def track(self, label: str, sequence: Iterable[T], *, total: int | None = None) -> Iterator[T]:
        outermost = self._bars is None
        bars = self._bars = self._bars or _started_bars()
        task = bars.add_task(printable(label), total=total if total is not None else _length(sequence))
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


def _started_bars() -> RichBars:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichBars

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    bars = RichBars(TextColumn("  {task.description}"), *columns, console=Console(stderr=True), transient=True)
    bars.start()
    return bars


@dataclass(frozen=True)
class Sheet:
    """One table of a card; the first column is never wrapped."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...] = ()

    def draw(self, console: Console) -> None:
        """Print it."""
        from rich import box
        from rich.table import Table

        style = box.SIMPLE_HEAD if self.columns else box.SIMPLE
        table = Table(
            title=self.title or None, title_justify="left", box=style, show_header=bool(self.columns), padding=(0, 1)
        )
        for index in range(len(self.rows[0]) if self.rows else 0):
            table.add_column(self.columns[index] if self.columns else "", no_wrap=index == 0, overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)


@dataclass(frozen=True)
class Card:
    """Title, text and tables about one thing; ``content`` is the same as plain values."""

    title: str
    content: Any
    text: str = ""
    sheets: tuple[Sheet, ...] = ()

    def draw(self, console: Console) -> None:
        """Print it."""
        console.print(self.title, style="bold")
        if self.text:
            console.print("\n" + "\n\n".join(map(_unwrapped, self.text.strip().split("\n\n"))))
        for sheet in self.sheets:
            sheet.draw(console)

    def show(self, *, as_json: bool) -> None:
        """Print it on stdout, or its content as JSON."""
        if as_json:
            print_json(self.content)
        else:
            self.draw(stdout())


def _state(done: int, total: int | None, seconds: float) -> str:
    if not total:
        return f"{done}, {duration(seconds)}"
    left = f", {duration(seconds * (total - done) / done)} left" if done else ""
    return f"{done}/{total} ({done / total:.0%}), {duration(seconds)}{left}"


def _length(sequence: Iterable[Any]) -> int | None:
    try:
        return len(sequence)  # type: ignore[arg-type]
    except TypeError:
        return None


def _unwrapped(paragraph: str) -> str:
    """Prose without its source's line breaks, so that the terminal breaks it; lists and code keep theirs."""
    lines = paragraph.split("\n")
    return paragraph if any(line.startswith((" ", "-", "*", "|", ">")) for line in lines) else " ".join(lines)
