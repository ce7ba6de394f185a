"""Embed the items' texts, plain and scrubbed, each distinct text once.

Plain rows depend on the dataset and the encoder alone, so every task on a dataset shares them; scrubbed rows depend on
the task as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import TEXT_FIELDS, ItemTable
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.features.encoder_spec import TFIDF_DIM, EncoderSpec
from genrec_unlearn_bench.features.sentence import SentenceEncoder
from genrec_unlearn_bench.features.tfidf import TfidfEncoder
from genrec_unlearn_bench.files import atomic_bytes
from genrec_unlearn_bench.progress import Progress

CHUNK = 512
"""Texts encoded, and stored, at a time."""


class TextEncoder(Protocol):
    """Turn N texts into rows [N, D], float32 of unit length (zero rows where a text gave nothing)."""

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]: ...


def build_encoder(spec: EncoderSpec, *, device: str = "cpu") -> TextEncoder:
    """Build the encoder of a specification. Models are loaded on first use."""
    if spec.kind == "tfidf":
        return TfidfEncoder(spec.dim or TFIDF_DIM)
    return SentenceEncoder(spec, device)


def encode_texts(
    texts: Sequence[str],
    spec: EncoderSpec,
    progress: Progress,
    *,
    cache_dir: Path | None = None,
    device: str = "cpu",
    encoder: TextEncoder | None = None,
) -> NDArray[np.float32]:
    """[N, D] embeddings, equal texts encoded once.

    A pretrained encoder works on chunks of the distinct texts, ordered by length; with ``cache_dir`` every finished
    chunk is stored there, so that an interrupted run goes on where it stopped and another task on the same dataset
    encodes nothing twice. Chunks follow from the list of texts alone: what the cache holds never changes a bit of the
    result, as it would if only missing texts were put together into batches.

    TF-IDF is fitted on all texts, repeated ones included, and is not stored: fitting takes seconds.

    Args:
        encoder: Used instead of the one the spec names (its rows are stored under the spec's key all the same).
    """
    chosen = encoder or build_encoder(spec, device=device)
    if spec.kind == "tfidf":
        return chosen.encode(texts, progress)
    distinct, order, places = _distinct(texts)
    chunks = [distinct[start : start + CHUNK] for start in range(0, len(distinct), CHUNK)]
    cache = None if cache_dir is None else EmbeddingCache(cache_dir, spec.key)
    out = np.zeros((len(texts), 0), dtype=np.float32)
    done = 0
    for number, chunk in enumerate(chunks, start=1):
        found = cache.load(chunk) if cache else None
        if found is None:
            if len(chunks) > 1:
                progress.info(f"encoding item texts: part {number} of {len(chunks)}")
            found = chosen.encode(chunk, progress)
            if cache:
                cache.save(chunk, found)
        if number == 1:
            # Each part is put where it belongs at once: all of them beside the whole would be twice the memory.
            out = np.empty((len(texts), found.shape[1]), dtype=np.float32)
        first, last = np.searchsorted(places, [done, done + len(chunk)])
        out[order[first:last]] = found[places[first:last] - done]
        done += len(chunk)
    return out


def encode_plain(
    items: ItemTable,
    spec: EncoderSpec,
    fields: Sequence[str] = TEXT_FIELDS,
    progress: Progress | None = None,
    *,
    cache_dir: Path | None = None,
    device: str = "cpu",
) -> NDArray[np.float32]:
    """Embed the items' texts: [N, D] float32, rows of unit length (zero rows where the text gave nothing).

    Args:
        fields: Fields of the text, in order (see ``ItemTable.plain_text``).
        cache_dir: Where a pretrained encoder's rows are kept chunk by chunk, to resume an interrupted run.
    """
    return encode_texts(items.plain_text(fields), spec, progress or Progress(), cache_dir=cache_dir, device=device)


def encode_scrubbed(
    items: ItemTable,
    split: ForgetSplit,
    plain: NDArray[np.float32],
    spec: EncoderSpec,
    fields: Sequence[str] = TEXT_FIELDS,
    progress: Progress | None = None,
    *,
    cache_dir: Path | None = None,
    device: str = "cpu",
) -> NDArray[np.float32]:
    """Embed the items' texts with the task's concept taken out of them: [N, D'] float32.

    Scrubbed rows must hold nothing of the concept, so TF-IDF is fitted a second time, on the scrubbed texts: its two
    matrices have two bases and are never compared with each other. A pretrained encoder re-encodes only the texts that
    scrubbing changed. Where it changed none, ``plain`` itself is returned.

    Args:
        plain: What ``encode_plain`` returned for the same items, encoder and fields.
    """
    watch = progress or Progress()
    before, after = items.plain_text(fields), scrubbed_items(items, split).plain_text(fields)
    changed = [row for row, text in enumerate(before) if after[row] != text]
    watch.note("texts_scrubbed", len(changed))
    if not changed:
        return plain
    if spec.kind == "tfidf":
        return encode_texts(after, spec, watch)
    scrubbed = plain.copy()
    scrubbed[changed] = encode_texts([after[row] for row in changed], spec, watch, cache_dir=cache_dir, device=device)
    return scrubbed


def _distinct(texts: Sequence[str]) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """The distinct texts, the shortest first; rows [N] in the order of these, and which of them each row has [N]."""
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    row = {text: at for at, text in enumerate(distinct)}
    places = np.fromiter((row[text] for text in texts), dtype=np.int64, count=len(texts))
    order = np.argsort(places, kind="stable")
    return distinct, order, places[order]


@dataclass(frozen=True)
class EmbeddingCache:
    """Rows on disk by key of the encoder and list of texts. A broken or altered file counts as absent."""

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
