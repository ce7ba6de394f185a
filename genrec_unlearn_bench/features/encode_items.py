"""Features of a catalogue's items: their texts, plain and scrubbed, through one encoder.

Plain rows depend on the dataset and the encoder alone, so every task on a dataset shares them; scrubbed rows depend on
the task as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import TEXT_FIELDS, ItemTable
from genrec_unlearn_bench.data.scrub import scrubbed_text
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec
from genrec_unlearn_bench.features.encoders import encode_texts
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress

__all__ = ["encode_items", "encode_plain", "encode_scrubbed"]


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
    texts = items.plain_text(fields)
    return encode_texts(texts, spec, progress or Progress(), cache_dir=cache_dir, device=device)


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
    before, after = items.plain_text(fields), scrubbed_text(items, split, fields)
    changed = [row for row, text in enumerate(before) if after[row] != text]
    watch.note("texts_scrubbed", len(changed))
    if not changed:
        return plain
    if spec.kind == "tfidf":
        return encode_texts(after, spec, watch)
    scrubbed = plain.copy()
    scrubbed[changed] = encode_texts([after[row] for row in changed], spec, watch, cache_dir=cache_dir, device=device)
    return scrubbed


def encode_items(
    items: ItemTable,
    split: ForgetSplit,
    spec: EncoderSpec,
    fields: Sequence[str] = TEXT_FIELDS,
    progress: Progress | None = None,
    *,
    cache_dir: Path | None = None,
    device: str = "cpu",
) -> ItemFeatures:
    """``encode_plain`` and ``encode_scrubbed`` together."""
    plain = encode_plain(items, spec, fields, progress, cache_dir=cache_dir, device=device)
    scrubbed = encode_scrubbed(items, split, plain, spec, fields, progress, cache_dir=cache_dir, device=device)
    return ItemFeatures(plain, scrubbed, spec.key)
