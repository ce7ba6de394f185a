from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.scrub import scrubbed_text
from genrec_unlearn_bench.data.task_spec import DEFAULT_CONCEPTS, BrandConcept, TaskSpec
from genrec_unlearn_bench.features import encoders
from genrec_unlearn_bench.features.encode_items import encode_items, encode_plain, encode_scrubbed
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, parse_encoder
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


def test_scrubbed_tfidf_rows_hold_nothing_of_the_concept(shop: Dataset) -> None:
    features = encode_items(shop.items, resolve(task("brand"), shop), parse_encoder("tfidf:64"), ("title",))
    assert features.encoder == "tfidf:64"
    plain, scrubbed = features.plain, features.scrubbed
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
    features = encode_items(shop.items, split, HUB, ("title",), progress, cache_dir=tmp_path)
    assert progress.notes["texts_scrubbed"] == 10
    assert [len(asked) for asked in counting.asked] == [20, 10]
    assert np.array_equal(features.plain[10:], features.scrubbed[10:])
    expected = Counting().encode(scrubbed_text(shop.items, split, ("title",)), Progress())
    assert np.array_equal(features.scrubbed, expected)
    again = encode_items(shop.items, split, HUB, ("title",), cache_dir=tmp_path)
    assert len(counting.asked) == 2, "all of it came from the cache"
    assert again.digest == features.digest
    encode_items(shop.items, resolve(task("item"), shop), HUB, ("title",), cache_dir=tmp_path)
    assert len(counting.asked) == 2, "another task on the same items encodes nothing"


def test_plain_rows_need_no_task_and_the_parts_made_apart_are_those_made_together(shop: Dataset) -> None:
    split, spec = resolve(task("brand"), shop), parse_encoder("tfidf:64")
    together = encode_items(shop.items, split, spec, ("title", "brand"))
    plain = encode_plain(shop.items, spec, ("title", "brand"))
    assert np.array_equal(plain, together.plain)
    apart = encode_scrubbed(shop.items, split, plain, spec, ("title", "brand"))
    assert np.array_equal(apart, together.scrubbed)


@pytest.mark.parametrize("kind", ["item", "interaction"])
def test_where_nothing_is_scrubbed_both_are_the_same(shop: Dataset, kind: str) -> None:
    features = encode_items(shop.items, resolve(task(kind), shop), parse_encoder("tfidf:16"))
    assert features.plain is features.scrubbed


def test_the_fields_decide_what_is_encoded(shop: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    class Watching:
        def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
            seen.append(list(texts))
            return np.eye(len(texts), 3, dtype=np.float32)

    monkeypatch.setattr(encoders, "build_encoder", lambda spec, device: Watching())
    encode_items(shop.items, resolve(task("brand"), shop), parse_encoder("tfidf"), ("brand",))
    assert seen[0] == ["Acme"] * 10 + ["Zenith"] * 10
    assert seen[1] == [f"i{row}" for row in range(10)] + ["Zenith"] * 10
