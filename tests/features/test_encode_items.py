from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.data.tasks import DEFAULT_CONCEPTS, BrandConcept, TaskSpec
from genrec_unlearn_bench.features import encoders
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, parse_encoder
from genrec_unlearn_bench.features.encoders import encode_plain, encode_scrubbed
from genrec_unlearn_bench.progress import Progress
from tests.data.worlds import dataset, item_table
from tests.features.test_encoders import HUB, Counting


@pytest.fixture(scope="module")
def shop() -> Dataset:
    """Two brands make the same ten things; only the name tells them apart."""
    things = ["anvil", "bellows", "chisel", "drill", "easel", "file", "gauge", "hammer", "iron", "jig"]
    titles = [f"{brand} {thing}" for brand in ("Acme", "Zenith") for thing in things]
    brands = ["Acme"] * 10 + ["Zenith"] * 10
    return dataset(item_table(20, titles=titles, brands=brands), users=40, length=12)


def task(kind: str) -> TaskSpec:
    concept = BrandConcept(brands=("Acme",)) if kind == "brand" else DEFAULT_CONCEPTS[kind]
    return TaskSpec(name=f"planted-{kind}", dataset="planted", concept=concept)


def encode(
    shop: Dataset, kind: str, spec: EncoderSpec, *fields: str, progress: Progress | None = None, **options: Path
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The plain and the scrubbed rows of the shop's items."""
    plain = encode_plain(shop.items, spec, fields, progress, **options)
    return plain, encode_scrubbed(shop.items, resolve(task(kind), shop), plain, spec, fields, progress, **options)


def test_scrubbed_tfidf_rows_hold_nothing_of_the_concept(shop: Dataset) -> None:
    plain, scrubbed = encode(shop, "brand", parse_encoder("tfidf:64"), "title")
    assert (plain @ plain.T)[0, 1] > 0.1, "two items of Acme share its name"
    np.testing.assert_allclose((scrubbed @ scrubbed.T)[:10, :10], np.eye(10), atol=1e-5)
    # Zenith's name stays, and its items keep their likeness.
    assert (scrubbed @ scrubbed.T)[10, 11] > 0.1


def test_a_pretrained_encoder_sees_only_changed_texts_again(
    shop: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = Counting()

    def build(spec: EncoderSpec, *, device: str = "cpu") -> Counting:
        return counting

    monkeypatch.setattr(encoders, "build_encoder", build)
    split = resolve(task("brand"), shop)
    progress = Progress()
    plain, scrubbed = encode(shop, "brand", HUB, "title", progress=progress, cache_dir=tmp_path)
    assert progress.notes["texts_scrubbed"] == 10
    assert [len(asked) for asked in counting.asked] == [20, 10]
    assert np.array_equal(plain[10:], scrubbed[10:])
    expected = Counting().encode(scrubbed_items(shop.items, split).plain_text(("title",)), Progress())
    assert np.array_equal(scrubbed, expected)
    again = encode(shop, "brand", HUB, "title", cache_dir=tmp_path)
    assert len(counting.asked) == 2, "all of it came from the cache"
    assert np.array_equal(again, (plain, scrubbed))
    encode(shop, "item", HUB, "title", cache_dir=tmp_path)
    assert len(counting.asked) == 2, "another task on the same items encodes nothing"


@pytest.mark.parametrize("kind", ["item", "interaction"])
def test_where_nothing_is_scrubbed_both_are_the_same(shop: Dataset, kind: str) -> None:
    plain, scrubbed = encode(shop, kind, parse_encoder("tfidf:16"), "title")
    assert plain is scrubbed


def test_the_fields_decide_what_is_encoded(shop: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    class Watching:
        def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
            seen.append(list(texts))
            return np.eye(len(texts), 3, dtype=np.float32)

    monkeypatch.setattr(encoders, "build_encoder", lambda spec, device: Watching())
    encode(shop, "brand", parse_encoder("tfidf"), "brand")
    assert seen[0] == ["Acme"] * 10 + ["Zenith"] * 10
    assert seen[1] == [f"i{row}" for row in range(10)] + ["Zenith"] * 10
