"""Item embeddings on disk: a finished matrix of a stage, and the chunks a pretrained encoder has finished so far."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.files import atomic_bytes
from genrec_unlearn_bench.tensors import read_tensors, write_tensors

__all__ = ["EmbeddingCache", "load_embeddings", "load_features", "save_embeddings", "save_features"]

_FILE = "embeddings.safetensors"


def save_embeddings(rows: NDArray[np.float32], folder: Path) -> None:
    """Write one matrix into ``folder``, which exists. OSErrors are the caller's to explain."""
    with (folder / _FILE).open("wb") as sink:
        write_tensors({"rows": np.asarray(rows, dtype=np.float32)}, sink)


def load_embeddings(folder: Path) -> NDArray[np.float32]:
    """Read what ``save_embeddings`` wrote. A large matrix is backed by the file (see ``tensors.read_tensors``).

    Raises:
        CorruptArtefact: The file is missing or broken.
    """
    try:
        rows = read_tensors(folder / _FILE)["rows"]
        if rows.dtype != np.float32 or rows.ndim != 2:
            raise ValueError(f"{rows.dtype} {rows.shape} is no matrix of float32")
    except (OSError, KeyError, ValueError) as fault:
        raise CorruptArtefact(
            f"stored item embeddings cannot be read ({type(fault).__name__}: {fault})",
            where=str(folder),
            hint="delete the folder; they are computed anew",
        ) from fault
    return rows


def save_features(features: ItemFeatures, folder: Path) -> None:
    """Write both matrices into ``folder``."""
    for name, rows in (("plain", features.plain), ("scrubbed", features.scrubbed)):
        (folder / name).mkdir(parents=True)
        save_embeddings(rows, folder / name)
    (folder / "encoder.txt").write_text(features.encoder, encoding="utf-8")


def load_features(folder: Path) -> ItemFeatures:
    """Read what ``save_features`` wrote; raises CorruptArtefact."""
    plain, scrubbed = (load_embeddings(folder / name) for name in ("plain", "scrubbed"))
    return ItemFeatures(plain, scrubbed, (folder / "encoder.txt").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class EmbeddingCache:
    """Rows by encoder and list of texts. A file that is broken or altered counts as absent and is written anew.

    Attributes:
        folder: Where the files lie; made when the first one is written.
        encoder: Key of the encoder.
    """

    folder: Path
    encoder: str

    def load(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """[len(texts), D] what was stored for exactly these texts in this order, or None."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            tensors = load(self._path(texts).read_bytes())
            rows, stored = tensors["rows"], tensors["digest"]
        except (OSError, SafetensorError, KeyError, ValueError):
            return None
        if rows.dtype != np.float32 or rows.ndim != 2 or len(rows) != len(texts):
            return None
        return rows if np.array_equal(stored, _digest(rows)) else None

    def save(self, texts: Sequence[str], rows: NDArray[np.float32]) -> None:
        """Store the rows, whole or not at all. Raises StorageError where the file system refuses."""
        from safetensors.numpy import save

        exact = np.ascontiguousarray(rows, dtype=np.float32)
        atomic_bytes(self._path(texts), save({"rows": exact, "digest": _digest(exact)}), "--cache-dir")

    def _path(self, texts: Sequence[str]) -> Path:
        state = hashlib.blake2b(self.encoder.encode(), digest_size=16)
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            state.update(len(content).to_bytes(8, "little"))
            state.update(content)
        return self.folder / f"{state.hexdigest()}.safetensors"


def _digest(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.frombuffer(hashlib.blake2b(rows.astype("<f4").tobytes(), digest_size=16).digest(), dtype=np.uint8)
