"""Embeddings on disk, one safetensors file for each list of texts that was encoded together."""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import StorageError

__all__ = ["EmbeddingCache"]


@dataclass(frozen=True)
class EmbeddingCache:
    """Rows by encoder and texts. A file that is broken, cut off or altered counts as absent and is written anew.

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
            content = self._place(texts).read_bytes()
        except OSError:
            return None
        try:
            tensors = load(content)
            rows, stored = tensors["rows"], tensors["digest"]
        except (SafetensorError, KeyError, ValueError):
            return None
        if rows.dtype != np.float32 or rows.ndim != 2 or len(rows) != len(texts):
            return None
        return rows if np.array_equal(stored, _digest(rows)) else None

    def save(self, texts: Sequence[str], rows: NDArray[np.float32]) -> None:
        """Store the rows, whole or not at all. Raises StorageError where the file system refuses."""
        from safetensors.numpy import save

        place = self._place(texts)
        draft = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}")
        exact = np.ascontiguousarray(rows, dtype=np.float32)
        body: bytes = save({"rows": exact, "digest": _digest(exact)})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(body)
            os.replace(draft, place)
        except OSError as fault:
            raise StorageError(
                f"the item embeddings cannot be stored: {fault.strerror}",
                where=str(self.folder),
                hint="free some space or mend the permissions, or choose another folder, and run it again",
            ) from fault
        finally:
            # A failure to clean up must not hide the reason for it.
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def _place(self, texts: Sequence[str]) -> Path:
        state = hashlib.blake2b(self.encoder.encode(), digest_size=16)
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            state.update(len(content).to_bytes(8, "little"))
            state.update(content)
        return self.folder / f"{state.hexdigest()}.safetensors"


def _digest(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.frombuffer(hashlib.blake2b(rows.astype("<f4").tobytes(), digest_size=16).digest(), dtype=np.uint8)
