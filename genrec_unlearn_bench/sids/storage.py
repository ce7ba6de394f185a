"""A table on disk: ``sids.safetensors`` and ``sids.json``, tied together by a digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.sids.table import SidTable, TreeCodes
from genrec_unlearn_bench.tensors import read_tensors, write_tensors

_TENSORS = "sids.safetensors"
_RECORD = "sids.json"
_NETWORK = "network."
"""Prefix of a live tokenizer's weights."""


class TableRecord(StrictModel):
    """Content of ``sids.json``."""

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

    A crash on the way leaves files that ``load_table`` refuses.
    """
    tensors: dict[str, NDArray[np.float32] | NDArray[np.int64]] = {"codes": table.codes}
    for level, book in enumerate(table.codebooks or ()):
        tensors[f"codebook.{level}"] = book
    if table.latents is not None:
        tensors["latents"] = table.latents
    for name, weights in (table.network or {}).items():
        tensors[_NETWORK + name] = weights
    with guarded(folder, "the folder of the semantic IDs"):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / _TENSORS).open("wb") as sink:
            write_tensors(tensors, sink)
        record = TableRecord(
            items=len(table),
            level_sizes=table.level_sizes,
            quantised_levels=table.quantised_levels,
            version=table.version,
            codebooks=len(table.codebooks or ()),
            tree=table.tree,
            digest=table.digest,
            content=_digest(folder / _TENSORS),
        )
        (folder / _RECORD).write_text(record.model_dump_json(indent=2) + "\n", encoding="utf-8")


def load_table(folder: Path) -> SidTable:
    """Read the table in ``folder``. Raises CorruptArtefact where a file is missing or does not match its digest."""
    try:
        record = TableRecord.model_validate_json((folder / _RECORD).read_bytes())
        content = _digest(folder / _TENSORS)
    except (OSError, ValidationError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "the record does not fit its schema"
        raise _corrupt(folder, str(reason)) from None
    if content != record.content:
        raise _corrupt(folder, "the tensors do not match their digest")
    try:
        tensors = read_tensors(folder / _TENSORS)
        table = SidTable(
            codes=tensors["codes"],
            level_sizes=record.level_sizes,
            quantised_levels=record.quantised_levels,
            codebooks=tuple(tensors[f"codebook.{i}"] for i in range(record.codebooks)) if record.codebooks else None,
            latents=tensors.get("latents"),
            version=record.version,
            network={name.removeprefix(_NETWORK): value for name, value in tensors.items() if name.startswith(_NETWORK)}
            or None,
            tree=record.tree,
        )
    except (OSError, KeyError, ValueError):
        raise _corrupt(folder, "the tensors are not those of a table") from None
    if table.digest != record.digest or len(table) != record.items:
        raise _corrupt(folder, "the codes do not match their digest")
    return table


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _corrupt(folder: Path, reason: str) -> CorruptArtefact:
    return CorruptArtefact(
        f"the stored semantic IDs cannot be used: {reason}",
        where=str(folder),
        hint="delete the folder; the next run makes it again",
    )
