"""Text encoders, and the embeddings of the items' texts, plain and scrubbed, each distinct text encoded once.

Plain rows depend on the dataset and the encoder alone, so every task on a dataset shares them; scrubbed rows depend on
the task as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.items import TEXT_FIELDS, ItemTable
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.errors import BenchError, DataFault, DataMissing
from genrec_unlearn_bench.features.encoder_spec import TFIDF_DIM, EncoderSpec, minilm_folder
from genrec_unlearn_bench.files import atomic_bytes
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive

CHUNK = 512
"""Texts encoded, and stored, at a time."""
LARGEST_FIT = 50_000
"""Texts that the words and components are learnt from at most."""
_BLOCK = 20_000
"""Texts projected at a time."""
_SMALL = 200
"""Below so many texts a word counts even if only one text has it."""
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNUSED = ["onnx/*", "openvino/*"]


class TextEncoder(Protocol):
    """Turn N texts into rows [N, D], float32 of unit length (zero rows where a text gave nothing)."""

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class TfidfEncoder:
    """Word uni- and bigrams, sublinear term frequency, projected by a seeded randomised SVD.

    It is fitted on the very texts it encodes, all of them at once. So two lists of texts have two bases: rows of one
    call may be compared with each other, never with rows of another call.

    Of more than ``LARGEST_FIT`` texts, so many at equal distances represent all: words, weights and components are
    learnt from them, and all texts are projected in blocks. Memory then no longer grows with the words of a catalogue.

    Words of a single text say nothing about which items are alike and are left out of larger catalogues. Signs are
    fixed by scikit-learn (the largest loading of each component is positive).
    """

    dim: int

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """[N, min(dim, N, words)] float32, unit rows; zero rows where a text has no word that counts."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from threadpoolctl import threadpool_limits

        sample = _sample(texts)
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
        components = min(self.dim, *weights.shape)
        seed = derive(0, "features", "tfidf") % 2**32
        svd = TruncatedSVD(components, algorithm="randomized", n_iter=7, n_oversamples=32, random_state=seed)
        # One thread: sums do not depend on the number of cores, and small matrix products on a busy machine spend a
        # hundred times longer waiting for other threads than computing.
        with threadpool_limits(limits=1):
            if sample is texts:
                return unit_rows(svd.fit_transform(weights))
            svd.fit(weights)
            del weights
            out = np.empty((len(texts), components), dtype=np.float32)
            starts = range(0, len(texts), _BLOCK)
            for start in progress.track("projecting item texts", starts, total=len(starts)):
                rows = slice(start, start + _BLOCK)
                out[rows] = unit_rows(svd.transform(vectoriser.transform(texts[rows])))
            return out


def _sample(texts: Sequence[str]) -> Sequence[str]:
    """The texts themselves, or ``LARGEST_FIT`` of them at equal distances."""
    if len(texts) <= LARGEST_FIT:
        return texts
    return [texts[place * len(texts) // LARGEST_FIT] for place in range(LARGEST_FIT)]


@dataclass(frozen=True)
class SentenceEncoder:
    """A model loaded on first use. Weights are read from safetensors alone, and no code out of a model is run."""

    spec: EncoderSpec
    device: str = "cpu"
    batch: int = 32

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """[N, D] float32, unit rows. Texts longer than the model takes are cut by it."""
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        batches = [order[start : start + self.batch] for start in range(0, len(order), self.batch)]
        out: NDArray[np.float32] | None = None
        for rows in progress.track("encoding item texts", batches, total=len(batches)):
            found = self._model.encode(
                [texts[row] for row in rows], batch_size=self.batch, convert_to_numpy=True, show_progress_bar=False
            )
            if out is None:
                out = np.zeros((len(texts), found.shape[1]), dtype=np.float32)
            out[rows] = unit_rows(found)
        return np.zeros((0, 0), dtype=np.float32) if out is None else out

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        folder = self._folder()
        try:
            # transformers would draw a bar of its own across ours.
            logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            return SentenceTransformer(
                str(folder), device=self.device, local_files_only=True, model_kwargs={"use_safetensors": True}
            )
        except (OSError, ValueError, RuntimeError, KeyError, ImportError) as fault:
            raise BenchError(
                f"the text encoder cannot be loaded: {_first_line(fault)}",
                where=self.spec.model if self.spec.source == "hub" else str(folder),
                hint="it must be a sentence-transformers model with safetensors weights; minilm and tfidf always work",
            ) from fault

    def _folder(self) -> Path:
        if self.spec.source == "minilm":
            return minilm_folder()
        if self.spec.source == "folder":
            return Path(self.spec.model or "")
        from huggingface_hub import snapshot_download

        try:
            # One look-up, no retries: without a network this fails at once, or finds what an earlier run has fetched.
            model, revision = self.spec.model or "", self.spec.revision
            return Path(snapshot_download(model, revision=revision, allow_patterns=_FILES, ignore_patterns=_UNUSED))
        except (OSError, ValueError) as fault:
            raise DataMissing(
                f"the text encoder {self.spec.model!r} is not on this machine and could not be fetched: "
                f"{_first_line(fault)}",
                where=self.spec.key,
                hint="check its name and the network; or give the folder of a downloaded model "
                "(--encoder path/to/model); or take an encoder that needs no network: minilm (a package) or tfidf",
            ) from fault


def _first_line(fault: BaseException) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0]


def unit_rows(matrix: NDArray[Any]) -> NDArray[np.float32]:
    """[N, D] float32, each row divided by its length; rows shorter than 1e-12 become zero."""
    exact = np.asarray(matrix, dtype=np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    return np.where(lengths > 1e-12, exact / np.maximum(lengths, 1e-12), 0.0).astype(np.float32)


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
    if not texts:
        return np.zeros((0, 0), dtype=np.float32)
    # The shortest first, for batches of even size.
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    chunks = [distinct[start : start + CHUNK] for start in range(0, len(distinct), CHUNK)]
    cache = None if cache_dir is None else EmbeddingCache(cache_dir, spec.key)
    parts = []
    for number, chunk in enumerate(chunks, start=1):
        found = cache.load(chunk) if cache else None
        if found is None:
            if len(chunks) > 1:
                progress.info(f"encoding item texts: part {number} of {len(chunks)}")
            found = chosen.encode(chunk, progress)
            if cache:
                cache.save(chunk, found)
        parts.append(found)
    row = {text: number for number, text in enumerate(distinct)}
    return np.concatenate(parts)[[row[text] for text in texts]]


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
        return rows if np.array_equal(stored, _digest(rows)) else None

    def save(self, texts: Sequence[str], rows: NDArray[np.float32]) -> None:
        """Store the rows, whole or not at all. Raises StorageError where the file system refuses."""
        from safetensors.numpy import save

        atomic_bytes(self._path(texts), save({"rows": rows, "digest": _digest(rows)}), "--cache-dir")

    def _path(self, texts: Sequence[str]) -> Path:
        state = hashlib.blake2b(self.encoder.encode(), digest_size=16)
        for text in texts:
            content = text.encode("utf-8", "surrogatepass")
            state.update(len(content).to_bytes(8, "little"))
            state.update(content)
        return self.folder / f"{state.hexdigest()}.safetensors"


def _digest(rows: NDArray[np.float32]) -> NDArray[np.uint8]:
    return np.frombuffer(hashlib.blake2b(rows.astype("<f4").tobytes(), digest_size=16).digest(), dtype=np.uint8)
