from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import BenchError, DataMissing, MissingExtra
from genrec_unlearn_bench.features import encoders
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, parse_encoder
from genrec_unlearn_bench.features.encoders import build_encoder, encode_texts
from genrec_unlearn_bench.features.sentence import SentenceEncoder
from genrec_unlearn_bench.progress import Progress

HUB = parse_encoder("owner/model")


class Counting:
    """Rows by hash of the text; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") for text in texts]
        return np.stack([np.random.default_rng(seed).normal(size=5) for seed in seeds]).astype(np.float32)


def test_equal_texts_are_encoded_once_and_rows_come_back_in_order() -> None:
    texts = ["bb", "a", "ccc", "a", "bb", "a"]
    counting = Counting()
    rows = encode_texts(texts, HUB, Progress(), encoder=counting)
    assert counting.asked == [["a", "bb", "ccc"]], "by length, for batches of even size"
    assert np.array_equal(rows, Counting().encode(texts, Progress()))


def test_chunks_follow_from_the_distinct_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "CHUNK", 10)
    texts = [f"text {row:02d}" for row in range(25)] * 2
    counting = Counting()
    rows = encode_texts(texts, HUB, Progress(), encoder=counting)
    assert [len(asked) for asked in counting.asked] == [10, 10, 5]
    assert np.array_equal(rows, Counting().encode(texts, Progress()))


def test_no_texts_make_no_rows() -> None:
    assert encode_texts([], HUB, Progress(), encoder=Counting()).shape == (0, 0)


def test_tfidf_sees_repeated_texts() -> None:
    texts = ["red tent", "red tent", "blue stove"]
    rows = encode_texts(texts, parse_encoder("tfidf:8"), Progress())
    assert np.array_equal(rows, build_encoder(parse_encoder("tfidf:8")).encode(texts, Progress()))


def test_a_hub_model_out_of_reach_names_the_ways_out() -> None:
    pytest.importorskip("sentence_transformers")
    # tests/conftest.py sets HF_HUB_OFFLINE.
    with pytest.raises(DataMissing) as caught:
        SentenceEncoder(parse_encoder("no-such-owner/no-such-model")).encode(["text"], Progress())
    message = str(caught.value)
    assert "no-such-owner/no-such-model" in message
    assert all(way in message for way in ("folder", "tfidf", "minilm"))


def test_a_folder_that_is_no_model_is_an_error_for_people(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 8')
    with pytest.raises(BenchError, match="cannot be loaded") as caught:
        SentenceEncoder(parse_encoder(str(tmp_path))).encode(["text"], Progress())
    assert str(tmp_path) in str(caught.value)


def test_without_sentence_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(MissingExtra, match=r"\[text\]"):
        SentenceEncoder(EncoderSpec(kind="sentence-transformers", source="hub", model="a/b")).encode(["x"], Progress())
