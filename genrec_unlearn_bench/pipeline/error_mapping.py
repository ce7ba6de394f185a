"""Maps any exception to a user's error: what is wrong, where, and how to fix it.

Only what nobody foresaw is called a fault of the suite, not refusals of the operating system, exhausted memory, input
that is nested too deeply, or exceptions of the user's own method, which its stage reports (``stages.unlearn``).
"""

from __future__ import annotations

import errno
import os
import traceback
from pathlib import Path

from genrec_unlearn_bench.errors import BenchError, StorageError
from genrec_unlearn_bench.files import storage_error
from genrec_unlearn_bench.pipeline.resources import MEMORY_HINT, is_out_of_memory

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


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


def _refusal(fault: BaseException) -> StorageError | None:
    if isinstance(fault, RuntimeError) and str(fault).startswith("Symlink loop"):
        return StorageError(
            "a symbolic link leads back to itself",
            where=str(fault).partition("'")[2].rstrip("'") or None,
            hint="remove the link, or choose another place",
        )
    # Nothing tells whether it happened in reading or in writing, but for codes that only writing has.
    writing = not isinstance(fault, OSError) or fault.errno in _OF_WRITING
    verb = "write" if writing else "read or write"
    return storage_error(fault, Path.cwd(), "--cache-dir, --results-dir", verb=verb)


def _first_line(fault: BaseException) -> str:
    text = str(fault).strip()
    return text.splitlines()[0] if text else "no details"
