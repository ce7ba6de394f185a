"""Embeddings of the items' texts, plain and with a task's concept scrubbed from them.

Plain rows depend on the dataset and the encoder alone, so every task on a dataset shares them; scrubbed rows depend on
the task as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.locate import offline
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.errors import BenchError, DataFault
from genrec_unlearn_bench.features.encoder_spec import TFIDF_DIM, EncoderSpec, minilm_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive

CHUNK = 512
"""Texts that batches are made of, the longest first: the bits of a row depend on the texts beside it."""
BATCH = 32
"""Texts encoded at a time; a chunk has whole batches."""
LARGEST_FIT = 50_000
"""Texts that the words and components are learnt from at most."""
_BLOCK = 20_000
"""Texts projected at a time."""
_SMALL = 200
"""Below so many texts a word counts even if only one text has it."""


def encode_scrubbed(
    items: ItemTable,
    split: ForgetSplit,
    plain: NDArray[np.float32],
    spec: EncoderSpec,
    fields: Sequence[str],
    progress: Progress,
    device: str = "cpu",
) -> NDArray[np.float32]:
    """Embed the items' texts with the task's concept taken out of them: [N, D'] float32.

    Scrubbed rows must hold nothing of the concept, so TF-IDF is fitted a second time, on the scrubbed texts: its two
    matrices have two bases and are never compared with each other. A pretrained encoder re-encodes only the texts that
    scrubbing changed. Where it changed none, ``plain`` itself is returned.

    Args:
        plain: The rows of the plain texts (``ItemTable.plain_text``) of the same items, by the same encoder.
    """
    before, after = items.plain_text(fields), scrubbed_items(items, split).plain_text(fields)
    changed = [row for row, text in enumerate(before) if after[row] != text]
    progress.note("texts_scrubbed", len(changed))
    if not changed:
        return plain
    if spec.kind == "tfidf":
        return encode_texts(after, spec, progress)
    scrubbed = plain.copy()
    scrubbed[changed] = encode_texts([after[row] for row in changed], spec, progress, device)
    return scrubbed


def encode_texts(
    texts: Sequence[str], spec: EncoderSpec, progress: Progress, device: str = "cpu"
) -> NDArray[np.float32]:
    """[N, D] float32, rows of unit length, zero rows where the text gave nothing.

    A pretrained encoder gets each distinct text once, cut to what its model takes.
    """
    if spec.kind == "tfidf":
        return tfidf(texts, spec.dim or TFIDF_DIM, progress)
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    chunks = (distinct[start : start + CHUNK] for start in range(0, len(distinct), CHUNK))
    ordered = [text for chunk in chunks for text in sorted(chunk, key=len, reverse=True)]
    batches = [ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH)]
    model, options = _load_model(spec, device), {"convert_to_numpy": True, "show_progress_bar": False}
    tracked = progress.track("encoding item texts", batches, total=len(batches))
    rows = np.concatenate([unit_rows(model.encode(batch, batch_size=BATCH, **options)) for batch in tracked])
    place = {text: row for row, text in enumerate(ordered)}
    return rows[[place[text] for text in texts]]


def tfidf(texts: Sequence[str], dim: int, progress: Progress) -> NDArray[np.float32]:
    """[N, min(dim, N, words)] float32, unit rows; zero rows where a text has no word that counts.

    Word uni- and bigrams, sublinear term frequency, projected by a seeded randomised SVD, fitted on the very texts it
    encodes, repeated ones included. So two lists of texts have two bases: rows of one call may be compared with each
    other, never with rows of another call.

    Of more than ``LARGEST_FIT`` texts, so many at equal distances are learnt from, and all are projected in blocks:
    memory then no longer grows with the words of a catalogue.

    Words of a single text say nothing about which items are alike and are left out of larger catalogues. Signs are
    fixed by scikit-learn (the largest loading of each component is positive).
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    every = len(texts) <= LARGEST_FIT
    sample = texts if every else [texts[place * len(texts) // LARGEST_FIT] for place in range(LARGEST_FIT)]
    progress.info(f"fitting TF-IDF on {len(sample)} of {len(texts)} texts")
    least = 2 if len(texts) >= _SMALL else 1
    vectoriser = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=least, dtype=np.float64)
    try:
        weights = vectoriser.fit_transform(sample)
    except ValueError as fault:
        raise DataFault(
            f"the items' texts hold no words to make features from ({fault})",
            where=f"{len(texts)} item texts",
            hint="choose other text fields, or another text encoder",
        ) from fault
    components = min(dim, *weights.shape)
    seed = derive(0, "features", "tfidf") % 2**32
    svd = TruncatedSVD(components, algorithm="randomized", n_iter=7, n_oversamples=32, random_state=seed)
    # One thread: sums do not depend on the number of cores, and small matrix products on a busy machine spend a
    # hundred times longer waiting for other threads than computing.
    with threadpool_limits(limits=1):
        if every:
            return unit_rows(svd.fit_transform(weights))
        svd.fit(weights)
        del weights
        out = np.empty((len(texts), components), dtype=np.float32)
        starts = range(0, len(texts), _BLOCK)
        for start in progress.track("projecting item texts", starts, total=len(starts)):
            rows = slice(start, start + _BLOCK)
            out[rows] = unit_rows(svd.transform(vectoriser.transform(texts[rows])))
        return out


def _load_model(spec: EncoderSpec, device: str) -> Any:
    """A sentence-transformers model. Weights are read from safetensors alone, and no code out of a model is run."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    place = str(minilm_folder()) if spec.source == "minilm" else str(spec.model)
    try:
        # transformers would draw a bar of its own across ours.
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        return SentenceTransformer(
            place,
            device=device,
            revision=spec.revision,
            local_files_only=spec.source != "hub" or offline(),
            model_kwargs={"use_safetensors": True},
        )
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as fault:
        raise BenchError(
            f"the text encoder cannot be loaded: {' '.join(str(fault).split())[:300] or type(fault).__name__}",
            where=place,
            hint="it must be a sentence-transformers model with safetensors weights, in a folder or, where there is a "
            "network, on the Hugging Face Hub; minilm (a package) and tfidf always work",
        ) from fault


def unit_rows(matrix: NDArray[Any]) -> NDArray[np.float32]:
    """[N, D] float32, each row divided by its length; rows shorter than 1e-12 become zero."""
    exact = np.asarray(matrix, dtype=np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    return np.where(lengths > 1e-12, exact / np.maximum(lengths, 1e-12), 0.0).astype(np.float32)
