"""A table on disk: ``sids.safetensors`` and ``sids.json``, tied together by a digest."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.sids.tree import TreeCodes

__all__ = ["TableRecord", "load_table", "save_table"]

_TENSORS = "sids.safetensors"
_RECORD = "sids.json"
_NETWORK = "network."
"""Prefix of a live tokenizer's weights."""


class TableRecord(StrictModel):
    """What ``sids.json`` holds."""

    format: int = 1
    items: int
    level_sizes: tuple[int, ...]
    quantised_levels: int
    version: int
    codebooks: int
    """Number of codebooks stored; 0 for a table without."""
    tree: TreeCodes | None = None
    """The layout of a tree's codes."""
    digest: str
    """``SidTable.digest``."""
    content: str
    """blake2b-128 of the tensor file, in hex."""


def save_table(table: SidTable, folder: Path) -> None:
    """Write the table into ``folder``, which is created if need be. Raises StorageError.

    Each file appears whole or not at all; a crash between the two leaves a pair that ``load_table`` refuses.
    """
    from safetensors.numpy import save

    tensors: dict[str, NDArray[np.float32] | NDArray[np.int64]] = {"codes": np.ascontiguousarray(table.codes)}
    for level, book in enumerate(table.codebooks or ()):
        tensors[f"codebook.{level}"] = np.ascontiguousarray(book)
    if table.latents is not None:
        tensors["latents"] = np.ascontiguousarray(table.latents)
    for name, weights in (table.network or {}).items():
        tensors[_NETWORK + name] = np.ascontiguousarray(weights)
    content: bytes = save(tensors)
    record = TableRecord(
        items=len(table),
        level_sizes=table.level_sizes,
        quantised_levels=table.quantised_levels,
        version=table.version,
        codebooks=len(table.codebooks or ()),
        tree=table.tree,
        digest=table.digest,
        content=_digest(content),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / _TENSORS, content)
        _write(folder / _RECORD, (record.model_dump_json(indent=2) + "\n").encode())
    except OSError as fault:
        raise StorageError(
            f"the semantic IDs could not be written: {fault.strerror or fault}",
            where=str(folder),
            mend="make room or choose another folder",
        ) from None


def load_table(folder: Path) -> SidTable:
    """The table stored in ``folder``. Raises CorruptArtefact where a file is missing or does not match its digest."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        record = TableRecord.model_validate_json((folder / _RECORD).read_bytes())
        content = (folder / _TENSORS).read_bytes()
    except (OSError, ValidationError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "the record does not fit its schema"
        raise _corrupt(folder, str(reason)) from None
    if _digest(content) != record.content:
        raise _corrupt(folder, "the tensors do not match their digest")
    try:
        tensors = load(content)
        table = SidTable(
            codes=tensors["codes"],
            level_sizes=record.level_sizes,
            quantised_levels=record.quantised_levels,
            codebooks=tuple(tensors[f"codebook.{i}"] for i in range(record.codebooks)) if record.codebooks else None,
            latents=tensors.get("latents"),
            version=record.version,
            network=_network(tensors),
            tree=record.tree,
        )
    except (SafetensorError, KeyError, ValueError):
        raise _corrupt(folder, "the tensors are not those of a table") from None
    if table.digest != record.digest or len(table) != record.items:
        raise _corrupt(folder, "the codes do not match their digest")
    return table


def _network(tensors: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]] | None:
    found = {name.removeprefix(_NETWORK): value for name, value in tensors.items() if name.startswith(_NETWORK)}
    return found or None


def _write(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _corrupt(folder: Path, reason: str) -> CorruptArtefact:
    return CorruptArtefact(
        f"the stored semantic IDs cannot be used: {reason}",
        where=str(folder),
        mend="delete the folder; the next run makes it again",
    )
