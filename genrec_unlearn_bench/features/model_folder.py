"""A pretrained model's folder by its content, so that changed weights are never mistaken for those of before."""

from __future__ import annotations

import hashlib
from pathlib import Path

from genrec_unlearn_bench.errors import UsageError

__all__ = ["model_digest"]

_FORMATS_UNUSED = frozenset({"onnx", "openvino"})
"""Folders with the same weights for other runtimes; they change nothing here."""


def model_digest(folder: Path) -> str:
    """blake2b-128, in hex, over names and contents of the files that make up a model.

    Readmes, hidden files and weights for other runtimes do not count. Raises UsageError where a file cannot be read.
    """
    state = hashlib.blake2b(digest_size=16)
    try:
        for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
            parts = path.relative_to(folder).parts
            hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
            if not path.is_file() or hidden or path.suffix == ".md" or parts[0] in _FORMATS_UNUSED:
                continue
            with path.open("rb") as handle:
                state.update(f"{'/'.join(parts)}\0".encode())
                state.update(hashlib.file_digest(handle, lambda: hashlib.blake2b(digest_size=16)).digest())
    except OSError as fault:
        raise UsageError(f"the model cannot be read: {fault.strerror}", where=str(fault.filename)) from fault
    return state.hexdigest()
