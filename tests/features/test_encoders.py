from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import BenchError, DataMissing, StorageError
from genrec_unlearn_bench.features import encoders
from genrec_unlearn_bench.features.encoder_spec import parse_encoder
from genrec_unlearn_bench.features.encoders import EmbeddingCache, SentenceEncoder, build_encoder, encode_texts
from genrec_unlearn_bench.progress import Progress

HUB = parse_encoder("owner/model")


class Counting:
    """Rows by hash of the text; remembers what it was asked, and can fail at one text."""

    def __init__(self, fail_at: str | None = None) -> None:
        self.asked: list[list[str]] = []
        self.fail_at = fail_at

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        if self.fail_at in texts:
            raise KeyboardInterrupt
        self.asked.append(list(texts))
        seeds = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big") for text in texts]
        return np.stack([np.random.default_rng(seed).normal(size=5) for seed in seeds]).astype(np.float32)


def test_equal_texts_are_encoded_once_and_rows_come_back_in_order() -> None:
    texts = ["bb", "a", "ccc", "a", "bb", "a"]
    counting = Counting()
    rows = encode_texts(texts, HUB, Progress(), encoder=counting)
    assert counting.asked == [["a", "bb", "ccc"]], "by length, for batches of even size"
    assert np.array_equal(rows, Counting().encode(texts, Progress()))


def test_what_was_encoded_is_not_encoded_again(tmp_path: Path) -> None:
    texts = [f"text {row}" for row in range(40)]
    first = encode_texts(texts, HUB, Progress(), cache_dir=tmp_path, encoder=Counting())
    again = Counting()
    assert np.array_equal(encode_texts(texts[::-1], HUB, Progress(), cache_dir=tmp_path, encoder=again)[::-1], first)
    assert again.asked == []
    other = Counting()
    encode_texts(texts, parse_encoder("owner/model@v2"), Progress(), cache_dir=tmp_path, encoder=other)
    assert other.asked, "another revision is another encoder"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "CHUNK", 10)
    texts = [f"text {row:02d}" for row in range(35)]
    with pytest.raises(KeyboardInterrupt):
        encode_texts(texts, HUB, Progress(), cache_dir=tmp_path, encoder=Counting(fail_at="text 25"))
    rest = Counting()
    rows = encode_texts(texts, HUB, Progress(), cache_dir=tmp_path, encoder=rest)
    assert [len(asked) for asked in rest.asked] == [10, 5]
    assert np.array_equal(rows, Counting().encode(texts, Progress()))


def test_chunks_do_not_depend_on_what_the_cache_holds(tmp_path: Path) -> None:
    texts = [f"text {row}" for row in range(8)]
    encode_texts(texts[:3], HUB, Progress(), cache_dir=tmp_path, encoder=Counting())
    after = Counting()
    encode_texts(texts, HUB, Progress(), cache_dir=tmp_path, encoder=after)
    assert after.asked == [texts], "a batch put together from misses would change the last bits of a row"


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign"])
def test_broken_shards_count_as_absent(tmp_path: Path, damage: str) -> None:
    cache = EmbeddingCache(tmp_path, "key")
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    cache.save(["a", "b"], rows)
    found = cache.load(["a", "b"])
    assert found is not None
    assert np.array_equal(found, rows)
    assert cache.load(["b", "a"]) is None
    assert cache.load(["ab"]) is None
    (shard,) = tmp_path.iterdir()
    content = shard.read_bytes()
    broken = {"cut": content[:-3], "flip": bytearray(content), "empty": b"", "foreign": b"not a shard at all"}[damage]
    if damage == "flip":
        at = content.index(rows.tobytes())
        broken[at + 5] ^= 1  # type: ignore[index]
    shard.write_bytes(bytes(broken))
    assert cache.load(["a", "b"]) is None
    cache.save(["a", "b"], rows)
    assert cache.load(["a", "b"]) is not None


def test_a_place_that_cannot_be_written_is_an_error_for_people(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot write"):
        EmbeddingCache(tmp_path / "file" / "cache", "key").save(["a"], np.zeros((1, 2), dtype=np.float32))


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
