from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.data.locate import OFFLINE_VARIABLE
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.features import encoders
from genrec_unlearn_bench.features.encoder_spec import parse_encoder
from genrec_unlearn_bench.features.encoders import encode_texts, tfidf, unit_rows
from genrec_unlearn_bench.progress import Progress

HUB = parse_encoder("owner/model")


class Counting:
    """In place of a loaded model: rows by hash of the text; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def encode(self, texts: Sequence[str], **options: object) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") for text in texts]
        return np.stack([np.random.default_rng(seed).normal(size=5) for seed in seeds]).astype(np.float32)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    model = Counting()
    monkeypatch.setattr(encoders, "_load_model", lambda spec, device: model)
    return model


def test_equal_texts_are_encoded_once_and_rows_come_back_in_order(counting: Counting) -> None:
    texts = ["bb", "a", "ccc", "a", "bb", "a"]
    rows = encode_texts(texts, HUB, Progress())
    assert counting.asked == [["ccc", "bb", "a"]]
    assert np.array_equal(rows, unit_rows(Counting().encode(texts)))


def test_batches_are_of_nearly_equal_length(counting: Counting) -> None:
    texts = [f"text {'x' * (row % 7)} {row}" for row in range(600)]
    encode_texts(texts, HUB, Progress())
    assert [len(asked) for asked in counting.asked] == [32] * 18 + [24]
    assert all(list(map(len, asked)) == sorted(map(len, asked), reverse=True) for asked in counting.asked)


def test_tfidf_sees_repeated_texts() -> None:
    texts = ["red tent", "red tent", "blue stove"]
    rows = encode_texts(texts, parse_encoder("tfidf:8"), Progress())
    assert np.array_equal(rows, tfidf(texts, 8, Progress()))


def test_a_hub_model_out_of_reach_names_the_ways_out() -> None:
    pytest.importorskip("sentence_transformers")
    # tests/conftest.py sets HF_HUB_OFFLINE.
    with pytest.raises(BenchError) as caught:
        encode_texts(["text"], parse_encoder("no-such-owner/no-such-model"), Progress())
    message = str(caught.value)
    assert "no-such-owner/no-such-model" in message
    assert all(way in message for way in ("folder", "tfidf", "minilm"))


def test_no_model_is_downloaded_where_downloads_are_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def load(*_: object, local_files_only: bool, **__: object) -> Counting:
        asked.append(local_files_only)
        return Counting()

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", load)
    for switch in ("1", ""):
        monkeypatch.setenv(OFFLINE_VARIABLE, switch)
        encode_texts(["text"], HUB, Progress())
    assert asked == [True, False]


def test_a_folder_that_is_no_model_is_an_error_for_people(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 8')
    with pytest.raises(BenchError, match="cannot be loaded") as caught:
        encode_texts(["text"], parse_encoder(str(tmp_path)), Progress())
    assert str(tmp_path) in str(caught.value)
