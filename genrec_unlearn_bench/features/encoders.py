"""Embed the items' texts, plain and scrubbed, each distinct text once.

Plain rows depend on the dataset and the encoder alone, so every task on a dataset shares them; scrubbed rows depend on
the task as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import TEXT_FIELDS, ItemTable
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.features.encoder_spec import TFIDF_DIM, EncoderSpec
from genrec_unlearn_bench.features.sentence import SentenceEncoder
from genrec_unlearn_bench.features.tfidf import TfidfEncoder
from genrec_unlearn_bench.progress import Progress

__all__ = ["TextEncoder", "build_encoder", "encode_plain", "encode_scrubbed", "encode_texts"]

CHUNK = 512
"""Texts encoded at a time."""


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
    device: str = "cpu",
    encoder: TextEncoder | None = None,
) -> NDArray[np.float32]:
    """[N, D] embeddings.

    A pretrained encoder works on chunks of the distinct texts, ordered by length. TF-IDF is fitted on all texts,
    repeated ones included.

    Args:
        encoder: Used instead of the one the spec names.
    """
    chosen = encoder or build_encoder(spec, device=device)
    if spec.kind == "tfidf":
        return chosen.encode(texts, progress)
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    row = {text: at for at, text in enumerate(distinct)}
    places = np.fromiter((row[text] for text in texts), dtype=np.int64, count=len(texts))
    order = np.argsort(places, kind="stable")
    places = places[order]
    out = np.zeros((len(texts), 0), dtype=np.float32)
    for start in range(0, len(distinct), CHUNK):
        if len(distinct) > CHUNK:
            progress.info(f"encoding item texts: {start} of {len(distinct)} done")
        found = chosen.encode(distinct[start : start + CHUNK], progress)
        if start == 0:
            # Each part is put where it belongs at once: all of them in a list would be twice the memory.
            out = np.empty((len(texts), found.shape[1]), dtype=np.float32)
        first, last = np.searchsorted(places, [start, start + CHUNK])
        out[order[first:last]] = found[places[first:last] - start]
    return out


def encode_plain(
    items: ItemTable,
    spec: EncoderSpec,
    fields: Sequence[str] = TEXT_FIELDS,
    progress: Progress | None = None,
    *,
    device: str = "cpu",
) -> NDArray[np.float32]:
    """Embed the items' texts: [N, D] float32, rows of unit length (zero rows where the text gave nothing).

    Args:
        fields: Fields of the text, in order (see ``ItemTable.plain_text``).
    """
    return encode_texts(items.plain_text(fields), spec, progress or Progress(), device=device)


def encode_scrubbed(
    items: ItemTable,
    split: ForgetSplit,
    plain: NDArray[np.float32],
    spec: EncoderSpec,
    fields: Sequence[str] = TEXT_FIELDS,
    progress: Progress | None = None,
    *,
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
    scrubbed[changed] = encode_texts([after[row] for row in changed], spec, watch, device=device)
    return scrubbed
