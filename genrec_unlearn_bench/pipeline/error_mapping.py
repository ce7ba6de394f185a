"""Maps any exception to a user's error: what is wrong, where, and how to fix it.

Only what nobody foresaw is called a fault of the suite. Refusals of the operating system, exhausted memory, input that
is nested too deeply and exceptions inside the user's own method file are theirs.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from genrec_unlearn_bench.errors import BenchError, OutOfMemory, StorageError
from genrec_unlearn_bench.files import storage_error
from genrec_unlearn_bench.registry import FILE_MODULE

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)

_SIGNS = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
    "std::bad_alloc",
    "failed to map segment",
    "can't start new thread",
)
"""How torch's allocators, cuBLAS and the system (``ulimit -v`` included) report exhausted memory in other errors."""

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
    refusal = _refusal(fault)
    if refusal is not None:
        return refusal
    frames = traceback.extract_tb(fault.__traceback__)
    files = {module.__file__ for name, module in list(sys.modules.items()) if name.startswith(FILE_MODULE)}
    if (frame := next((frame for frame in reversed(frames) if frame.filename in files), None)) is not None:
        line = f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
        return BenchError(
            f"the method failed: {line}: {type(fault).__name__}: {_first_line(fault)}",
            where=f"{frame.filename}:{frame.lineno}",
            hint="fix the method's file (bench method check tries it on small cases); --debug shows the traceback",
        )
    if isinstance(fault, OSError) and fault.filename is not None:
        return StorageError(
            f"the system refuses a file: {fault.strerror}",
            where=os.fsdecode(fault.filename),
            hint="check that path, and run it again",
        )
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else None
    if isinstance(fault, RecursionError):
        return BenchError(
            "the input is nested too deeply to be read",
            where=place,
            hint="look for brackets within brackets in the files of this call; --debug shows which was being read",
        )
    return BenchError(
        f"{type(fault).__name__}: {_first_line(fault)}",
        where=place,
        hint="this is a fault of the suite, not of your call: please report it with what --debug shows",
    )


def is_out_of_memory(fault: BaseException) -> bool:
    """Whether a fault says that memory ran out."""
    told = isinstance(fault, RuntimeError | OSError | ImportError)
    return isinstance(fault, MemoryError) or (told and any(sign in str(fault).lower() for sign in _SIGNS))


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


def _refusal(fault: BaseException) -> StorageError | None:
    """A refusal of the file system that is known by its code."""
    if isinstance(fault, RuntimeError) and str(fault).startswith("Symlink loop"):
        return StorageError(
            "a symbolic link leads back to itself",
            where=str(fault).partition("'")[2].rstrip("'") or None,
            hint="remove the link, or choose another place",
        )
    # Only some codes say that it happened in writing.
    writing = not isinstance(fault, OSError) or fault.errno in _OF_WRITING
    verb = "write" if writing else "read or write"
    return storage_error(fault, Path.cwd(), "--cache-dir, --results-dir", verb=verb)


def _first_line(fault: BaseException) -> str:
    text = str(fault).strip()
    return text.splitlines()[0] if text else "no details"
