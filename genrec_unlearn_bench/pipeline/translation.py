"""Any fault as the user's error: what is wrong, where, and how to mend it."""

from __future__ import annotations

import traceback
from pathlib import Path

from genrec_unlearn_bench.errors import BenchError, StorageError
from genrec_unlearn_bench.files import storage_error

__all__ = ["translated"]


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
            hint="use a smaller --scale or batch (--set-backbone training.batch_size=64), or another --device",
        )
    return BenchError(
        f"{type(fault).__name__}: {_first_line(fault)}",
        where=_place(fault),
        hint="this is a fault of the suite or of a method, not of your call: run it again with --debug and report it",
    )


def _storage(fault: Exception) -> StorageError | None:
    return storage_error(fault, Path.cwd(), "--cache-dir, --results-dir")


def _first_line(fault: Exception) -> str:
    text = str(fault).strip()
    return text.splitlines()[0] if text else "no details"


def _place(fault: Exception) -> str | None:
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else None
