"""Features of a task's items: their texts, plain and scrubbed, through one encoder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import TEXT_FIELDS, ItemTable
from genrec_unlearn_bench.data.scrub import scrubbed_text
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec
from genrec_unlearn_bench.features.encoders import build_encoder, encode_texts
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress

__all__ = ["encode_items"]


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
    """Embed every item twice: with its own text, and with the concept taken out of it.

    Scrubbed rows must hold nothing of the concept, so an encoder that is fitted is fitted a second time, on the
    scrubbed texts: its two matrices have two bases and are never compared with each other. A pretrained encoder sees
    only those texts again that scrubbing changed. Where scrubbing changes nothing, both are the same matrix.

    Args:
        fields: Fields of the text, in order (see ``ItemTable.plain_text``).
        cache_dir: Where a pretrained encoder's rows are kept for other tasks on the same items.
    """
    watch = progress or Progress()
    encoder = build_encoder(spec, device=device)
    plain_texts = items.plain_text(fields)
    scrubbed_texts = scrubbed_text(items, split, fields)
    plain = encode_texts(plain_texts, spec, watch, cache_dir=cache_dir, encoder=encoder)
    changed = [row for row, text in enumerate(plain_texts) if scrubbed_texts[row] != text]
    watch.note("texts_scrubbed", len(changed))
    if not changed:
        return ItemFeatures(plain, plain, spec.key)
    if spec.kind == "tfidf":
        return ItemFeatures(plain, encode_texts(scrubbed_texts, spec, watch, encoder=encoder), spec.key)
    scrubbed = plain.copy()
    again = [scrubbed_texts[row] for row in changed]
    scrubbed[changed] = encode_texts(again, spec, watch, cache_dir=cache_dir, encoder=encoder)
    return ItemFeatures(plain, scrubbed, spec.key)
