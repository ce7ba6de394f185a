"""Digests of input files, read once for each state of a file."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from genrec_unlearn_bench.errors import DataFault

__all__ = ["file_digest"]

_CHUNK = 1 << 20


def file_digest(path: Path) -> str:
    """blake2b-128 of a file's content, in hex. A file whose size and time stay the same is read once a process."""
    try:
        state = path.stat()
        return _digest(path.resolve(), state.st_size, state.st_mtime_ns, state.st_ino)
    except OSError as fault:
        raise DataFault(f"cannot be read: {fault.strerror or fault}", where=str(path)) from None


@lru_cache(maxsize=256)
def _digest(path: Path, size: int, modified: int, inode: int) -> str:
    with path.open("rb") as stream:
        state = hashlib.blake2b(digest_size=16)
        while chunk := stream.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()
