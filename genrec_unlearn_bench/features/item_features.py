"""Item features: embeddings of the items' texts, in memory and on disk."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.tensors import read_tensors, write_tensors

_FILE = "embeddings.safetensors"


@dataclass(frozen=True, eq=False)
class ItemFeatures:
    """Embeddings of the items' texts, plain and with the concept scrubbed."""

    plain: NDArray[np.float32]
    """[N, D], rows of unit length (zero rows where the text gave nothing)."""
    scrubbed: NDArray[np.float32]
    """[N, D] of the texts without the task's concept, on which the encoder was fitted where it has to be."""
    encoder: str
    """Key of the encoder, as in the result record."""

    @cached_property
    def digest(self) -> str:
        """blake2b-128 over both matrices; cached, as a million rows take seconds."""
        state = hashlib.blake2b(digest_size=16)
        for matrix in (self.plain, self.scrubbed):
            state.update(np.ascontiguousarray(matrix, dtype="<f4").reshape(-1).data)
        return state.hexdigest()


def save_embeddings(rows: NDArray[np.float32], folder: Path) -> None:
    """Write one matrix into ``folder``, which exists. OSErrors are the caller's to explain."""
    write_tensors({"rows": np.asarray(rows, dtype=np.float32)}, folder / _FILE)


def load_embeddings(folder: Path) -> NDArray[np.float32]:
    """Read what ``save_embeddings`` wrote."""
    rows: NDArray[np.float32] = read_tensors(folder / _FILE)["rows"]
    return rows
