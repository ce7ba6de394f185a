"""Commands out of verbs: terminal output, ``--json`` and ``--debug``, exceptions as messages with stable exit codes."""

from __future__ import annotations

import functools
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer import Option

from genrec_unlearn_bench.errors import printable
from genrec_unlearn_bench.pipeline.error_mapping import to_user_error
from genrec_unlearn_bench.progress import process_index
from genrec_unlearn_bench.progress_display import print_line

Part = str | RenderableType | Callable[[Console], None]

AsJson = Annotated[bool, Option("--json", help="Print JSON on stdout instead of a table.")]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]

INTERRUPTED = 130

LONGEST = 12
"""Values of a list that are shown."""
PIPED_WIDTH = 120
"""Columns assumed where output is piped and nothing says otherwise; rich would take 80 and wrap tables."""

_AFTER_INTERRUPT = "interrupted: nothing half-written was left; run the same command again to go on where it stopped"


@dataclass(frozen=True)
class Output:
    """What a command shows, and how it ends.

    Attributes:
        content: What ``--json`` prints: plain values, or a function that gives them.
        parts: What is shown otherwise. Texts are never wrapped, as they hold paths to be copied.
        faults: Lines for stderr; ``fault`` is raised after all that.
    """

    content: Any
    parts: Sequence[Part] = ()
    exit_code: int = 0
    faults: Sequence[str] = ()
    fault: BaseException | None = None

    def show(self, *, as_json: bool) -> None:
        """Print it."""
        if as_json:
            print_json(self.content() if callable(self.content) else self.content)
        else:
            console = stdout()
            for part in self.parts:
                if callable(part):
                    part(console)
                else:
                    console.print(part, soft_wrap=isinstance(part, str | Text))
        for fault in self.faults:
            print_line(fault, stderr=True)


def as_command(verb: Callable[..., Output | None]) -> Callable[..., None]:
    """Give a verb the options ``--debug`` and, if it returns an Output, ``--json``; show its output.

    Every exception becomes a message on stderr and an exit code: 0 done, 1 a cell failed, 2 the call is wrong,
    3 protocols do not match, 130 interrupted.
    """
    own = inspect.signature(verb, eval_str=True)
    wants_json = "as_json" in own.parameters
    added: dict[str, Any] = {"debug": Debug}
    if own.return_annotation is Output and not wants_json:
        added = {"as_json": AsJson, **added}

    @functools.wraps(verb)
    def call(*, debug: bool = False, as_json: bool = False, **options: Any) -> None:
        if wants_json:
            options["as_json"] = as_json
        try:
            with _interruptible():
                output = verb(**options)
                # Of several processes of one run, the first owns the terminal.
                if output is not None and process_index() == 0:
                    output.show(as_json=as_json)
                sys.stdout.flush()
                if output is not None and output.fault is not None:
                    raise output.fault
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            # Whoever read our output has gone (`bench ls | head`); flushing at exit would only fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (KeyboardInterrupt, Exception) as fault:
            if debug:
                traceback.print_exception(fault)
            message, code = _AFTER_INTERRUPT, INTERRUPTED
            if isinstance(fault, Exception):
                error = to_user_error(fault)
                message, code = f"error: {error.render()}", error.exit_code
            # Plain print: a path in the message must not be wrapped or read as markup.
            print(message, file=sys.stderr)
            raise typer.Exit(code) from None
        if output is not None and output.exit_code:
            raise typer.Exit(output.exit_code)

    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in added.items()
    ]
    # Typer reads both.
    call.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in (*own.parameters.values(), *more)}
    return call


@contextmanager
def _interruptible() -> Iterator[None]:
    """While a verb runs, Ctrl-C and a polite kill raise KeyboardInterrupt, so that drafts and locks are cleaned up.

    Before and after, the handlers of start.py end the process at once. Handlers of somebody else stay.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = [number for number, handler in before.items() if getattr(handler, "__module__", "").endswith("cli.start")]
    for number in ours:
        signal.signal(number, signal.default_int_handler)
    dropped, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        yield
    finally:
        sys.unraisablehook = dropped
        for number in ours:
            signal.signal(number, before[number])


def _interrupt_again(found: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that came inside a destructor or a weak reference's callback, where Python drops it."""
    if issubclass(found.exc_type, KeyboardInterrupt):
        Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(found)


def sheet(
    rows: Sequence[Sequence[str | Text]], columns: Sequence[str] = (), *, title: str = "", right: Sequence[str] = ()
) -> Table:
    """A table whose first column is never wrapped. Without ``columns``: pairs of a name and a value. ``right``: columns
    that are aligned to the right."""
    style = box.SIMPLE_HEAD if columns else box.SIMPLE
    found = Table(
        title=printable(title) or None, title_justify="left", box=style, show_header=bool(columns), padding=(0, 1)
    )
    for index, name in enumerate(columns or [""] * len(rows[0] if rows else ())):
        found.add_column(name, no_wrap=index == 0, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        # Escaped before the widths of columns are worked out.
        found.add_row(*(printable(cell, keep="\n") if isinstance(cell, str) else cell for cell in row))
    return found


def card(
    title: str, content: Any, text: str = "", *, view: Mapping[str, Any] | None = None, sheets: Sequence[Table] = ()
) -> Output:
    """Title, prose and tables about one thing: of plain values (``describe``), then ``sheets``."""
    parts: list[Part] = [Text(title, style="bold"), *([Padding(text.strip(), (1, 0, 0, 0))] if text else [])]
    return Output(content, [*parts, *describe(view or {}), *sheets])


def describe(view: Mapping[str, Any]) -> list[Table]:
    """Plain values as tables, what is empty left out.

    A list of mappings becomes a table with their fields as columns, a mapping of mappings one with its keys as columns
    and their fields as rows; everything else is a row of one table of facts, nested names with dots.
    """
    facts: dict[str, Any] = {}
    tables = []
    for name, value in view.items():
        title = name.replace("_", " ")
        if value and isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
            heads = list(dict.fromkeys(field for one in value for field in one))
            tables.append(sheet([[text_of(one.get(field)) for field in heads] for one in value], heads, title=title))
        elif value and isinstance(value, Mapping) and all(isinstance(one, Mapping) for one in value.values()):
            columns = [_flat(one) for one in value.values()]
            names = dict.fromkeys(field for column in columns for field in column)
            rows = [[field, *(text_of(column.get(field)) for column in columns)] for field in names]
            tables.append(sheet(rows, ["", *value], title=title))
        else:
            facts |= _flat({title: value})
    rows = [[name, text_of(value)] for name, value in facts.items() if value not in (None, "", [], ())]
    return [*([sheet(rows)] if rows else []), *tables]


def text_of(value: Any) -> str:
    """A plain value as a cell: twelve values of a list at most, a dash for nothing."""
    if value is None or value in ([], ()):
        return "–"
    if isinstance(value, list | tuple):
        shown = [*map(text_of, value[:LONGEST]), *([f"… ({len(value)})"] if len(value) > LONGEST else [])]
        return ("\n" if max(map(len, shown)) > 50 else ", ").join(shown)
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {text_of(one)}" for name, one in _flat(value).items())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _flat(content: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Fields of nested mappings, their names with dots."""
    out: dict[str, Any] = {}
    for name, value in content.items():
        out |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return out


def stdout() -> Console:
    """A console on stdout, wide enough for tables when piped.

    Brackets are text, not markup: titles and paths may hold them. Control characters in texts are shown escaped.
    """

    class EscapingConsole(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **options):
                if segment.control or segment.text.isprintable():
                    yield segment
                else:
                    yield Segment(printable(segment.text, keep="\n"), segment.style)

        def on_broken_pipe(self) -> None:
            # Rich would end the process with exit code 1.
            raise BrokenPipeError

    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return EscapingConsole(width=PIPED_WIDTH if piped else None, highlight=False, soft_wrap=False, markup=False)


def print_json(content: Any) -> None:
    """Machine-readable output: JSON on stdout, nothing else there. In ASCII, so that no terminal acts on a name."""
    print(json.dumps(content, indent=2, allow_nan=False))


def first_lines(texts: Sequence[str], *, most: int = 10, more: str = "") -> list[str]:
    """The first of many lines, and how many are left out; ``more`` says where they are."""
    left = len(texts) - most
    return [*texts[:most], *([f"  … and {left} more{more and f' ({more})'}"] if left > 0 else [])]
