"""Maps any exception to a user's error: what is wrong, where, and how to fix it.

Only what nobody foresaw is called a fault of the suite. Refusals of the operating system, exhausted memory and input
that is nested too deeply are not; what a user's own method file raises is reported where it is called.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genrec_unlearn_bench.errors import BenchError, OutOfMemory, StorageError
from genrec_unlearn_bench.files import storage_error

_SIGNS = (
    *("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory", "alloc_failed"),
    *("std::bad_alloc", "failed to map segment", "can't start new thread", "error return without exception set"),
)
"""How torch's allocators, cuBLAS and the system (``ulimit -v`` included) report exhausted memory in other errors; the
last is CPython's SystemError where an import could not allocate."""

MEMORY_HINT = (
    "finished stages are kept; run it again with a smaller batch (--set batch_size=64, --set-backbone "
    "training.batch_size=64, training.rows_at_once=8 or training.gradient_checkpointing=true where the backbone has "
    "them), a smaller --scale or another --device"
)


def to_user_error(fault: BaseException) -> BenchError:
    """The user's error for any exception."""
    if isinstance(fault, BenchError):
        return fault
    if is_out_of_memory(fault):
        return BenchError(f"memory is exhausted: {_first_line(fault)}", hint=MEMORY_HINT)
    if isinstance(fault, RuntimeError) and str(fault).startswith("Symlink loop"):
        what, where = "a symbolic link leads back to itself", str(fault).partition("'")[2].rstrip("'")
        return StorageError(what, where=where, hint="remove the link, or choose another place")
    refusal = storage_error(fault, Path.cwd(), "--cache-dir, --results-dir", verb="read or write")
    if refusal is not None:
        return refusal
    if isinstance(fault, OSError) and fault.filename is not None:
        return StorageError(
            f"the system refuses a file: {fault.strerror}",
            where=os.fsdecode(fault.filename),
            hint="check that path, and run it again",
        )
    frames = traceback.extract_tb(fault.__traceback__)
    what = f"{type(fault).__name__}: {_first_line(fault)}"
    hint = "this is a fault of the suite, not of your call: please report it with what --debug shows"
    if isinstance(fault, RecursionError):
        what = "the input is nested too deeply to be read"
        hint = "look for brackets within brackets in the files of this call; --debug shows which was being read"
    return BenchError(
        what, where=f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else None, hint=hint
    )


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether a fault says that memory ran out."""
    possible = isinstance(fault, RuntimeError | OSError | ImportError | SystemError)
    return isinstance(fault, MemoryError) or (possible and any(sign in str(fault).lower() for sign in _SIGNS))


@contextmanager
def enough_memory(work: str, *, device: str) -> Iterator[None]:
    """Turn exhausted memory inside the block into OutOfMemory, whose message names ``work``; other faults pass."""
    try:
        yield
    except Exception as fault:
        if not is_out_of_memory(fault):
            raise
        if device.startswith("cuda"):
            import torch

            # What the failed work had cached is given back, for the cells that follow.
            torch.cuda.empty_cache()
        raise OutOfMemory(
            f"memory is exhausted on {device} during {work}: {_first_line(fault)}", hint=MEMORY_HINT
        ) from fault


def _first_line(fault: BaseException) -> str:
    return str(fault).strip().partition("\n")[0] or "no details"
