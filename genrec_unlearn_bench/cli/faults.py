"""Turns faults into what a user reads: what is wrong, where, how to mend it, and a stable exit code.

0 done, 1 a cell failed, 2 the call is wrong, 3 protocols do not match, 130 interrupted. ``--debug`` shows tracebacks.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer

from genrec_unlearn_bench.errors import BenchError, StorageError

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
            told = translated(fault)
            _print(f"error: {told.render()}")
            raise typer.Exit(told.exit_code) from None

    return call


def translated(fault: Exception) -> BenchError:
    """The user's error for any fault."""
    if isinstance(fault, BenchError):
        return fault
    refusal = _storage(fault)
    if refusal is not None:
        return refusal
    if isinstance(fault, MemoryError) or "out of memory" in str(fault).lower():
        return BenchError(
            f"memory is exhausted: {_first_line(fault)}",
            mend="use a smaller --scale or batch (--set-backbone training.batch_size=64), or another --device",
        )
    return BenchError(
        f"{type(fault).__name__}: {_first_line(fault)}",
        where=_place(fault),
        mend="this is a fault of the suite or of a method, not of your call: run it again with --debug and report it",
    )


def _storage(fault: Exception) -> StorageError | None:
    # Imported here: the runs floor is not needed to print a help text.
    from genrec_unlearn_bench.runs.files import storage_error

    return storage_error(fault, Path.cwd(), "--cache-dir, --results-dir")


def _first_line(fault: Exception) -> str:
    text = str(fault).strip()
    return text.splitlines()[0] if text else "no details"


def _place(fault: Exception) -> str | None:
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else None


def _print(text: str) -> None:
    # Plain print: a path in the message must not be wrapped or read as markup.
    print(text, file=sys.stderr)
