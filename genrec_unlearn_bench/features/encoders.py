"""Build a text encoder and embed texts with it, each distinct text once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.features.encoder_spec import TFIDF_DIM, EncoderSpec, parse_encoder
from genrec_unlearn_bench.features.sentence import SentenceEncoder
from genrec_unlearn_bench.features.storage import EmbeddingCache
from genrec_unlearn_bench.features.tfidf import TfidfEncoder
from genrec_unlearn_bench.progress import Progress

__all__ = ["EncoderSpec", "TextEncoder", "build_encoder", "encode_texts", "parse_encoder"]

CHUNK = 512
"""Texts encoded, and stored, at a time."""


class TextEncoder(Protocol):
    """Turns texts into rows of unit length."""

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """[N, D] float32, unit rows (zero rows where a text gave nothing)."""
        ...


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
    distinct, rows = _distinct(texts)
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
        bounds = np.searchsorted(rows.places, [done, done + len(chunk)])
        out[rows.order[bounds[0] : bounds[1]]] = found[rows.places[bounds[0] : bounds[1]] - done]
        done += len(chunk)
    return out


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows by distinct text.

    Attributes:
        order: [N] rows, those with the first distinct text first.
        places: [N] place of each of these rows' text among the distinct ones, ascending.
    """

    order: NDArray[np.int64]
    places: NDArray[np.int64]


def _distinct(texts: Sequence[str]) -> tuple[list[str], _Rows]:
    """The distinct texts, the shortest first, and the rows that have them."""
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    row = {text: at for at, text in enumerate(distinct)}
    places = np.fromiter((row[text] for text in texts), dtype=np.int64, count=len(texts))
    order = np.argsort(places, kind="stable")
    return distinct, _Rows(order, places[order])
