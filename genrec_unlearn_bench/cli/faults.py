"""Turns faults into what a user reads: what is wrong, where, how to mend it, and a stable exit code.

0 done, 1 a cell failed, 2 the call is wrong, 3 protocols do not match, 130 interrupted. ``--debug`` shows tracebacks.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import typer

__all__ = ["handled"]

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130


def handled(verb: Callable[P, R]) -> Callable[P, R]:
    """Wrap a verb: every fault becomes a message on stderr and an exit code. Verbs take ``debug`` as an option."""

    @functools.wraps(verb)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return verb(*arguments, **options)
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            # Whoever read our output has gone (`bench ls | head`); flushing at exit would only fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt as fault:
            if options.get("debug"):
                traceback.print_exception(fault)
            _print("interrupted: nothing half-written was left; run the same command again to go on where it stopped")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as fault:
            if options.get("debug"):
                traceback.print_exception(fault)
            # Imported here: the runs floor is not needed to print a help text.
            from genrec_unlearn_bench.pipeline.translation import translated

            told = translated(fault)
            _print(f"error: {told.render()}")
            raise typer.Exit(told.exit_code) from None

    return call


def _print(text: str) -> None:
    # Plain print: a path in the message must not be wrapped or read as markup.
    print(text, file=sys.stderr)
