"""Turns every exception of a verb into a message on stderr and a stable exit code.

0 done, 1 a cell failed, 2 the call is wrong, 3 protocols do not match, 130 interrupted. ``--debug`` shows tracebacks.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ParamSpec, TypeVar

import typer

from genrec_unlearn_bench.pipeline.error_mapping import to_user_error

__all__ = ["handled"]

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130


def handled(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a verb: exceptions become a message and an exit code. Verbs take ``debug`` as an option."""

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
            _show_traceback(fault, options)
            _print("interrupted: nothing half-written was left; run the same command again to go on where it stopped")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as fault:
            _show_traceback(fault, options)
            error = to_user_error(fault)
            _print(f"error: {error.render()}")
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


def _show_traceback(fault: BaseException, options: dict[str, object]) -> None:
    if options.get("debug"):
        traceback.print_exception(fault)


def _print(text: str) -> None:
    # Plain print: a path in the message must not be wrapped or read as markup.
    print(text, file=sys.stderr)
