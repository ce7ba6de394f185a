from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.data.tasks import DEFAULT_CONCEPTS, BrandConcept, TaskSpec
from genrec_unlearn_bench.features import encoders
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, parse_encoder
from genrec_unlearn_bench.features.encoders import encode_scrubbed, encode_texts
from genrec_unlearn_bench.progress import Progress
from tests.data.worlds import dataset, item_table
from tests.features.test_encoders import HUB, Counting, counting  # noqa: F401


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
    shop: Dataset, kind: str, spec: EncoderSpec, *fields: str, progress: Progress | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The plain and the scrubbed rows of the shop's items."""
    watch = progress or Progress()
    plain = encode_texts(shop.items.plain_text(fields), spec, watch)
    return plain, encode_scrubbed(shop.items, resolve(task(kind), shop), plain, spec, fields, watch)


def test_scrubbed_tfidf_rows_hold_nothing_of_the_concept(shop: Dataset) -> None:
    plain, scrubbed = encode(shop, "brand", parse_encoder("tfidf:64"), "title")
    assert (plain @ plain.T)[0, 1] > 0.1, "two items of Acme share its name"
    np.testing.assert_allclose((scrubbed @ scrubbed.T)[:10, :10], np.eye(10), atol=1e-5)
    # Zenith's name stays, and its items keep their likeness.
    assert (scrubbed @ scrubbed.T)[10, 11] > 0.1


def test_a_pretrained_encoder_sees_only_changed_texts_again(shop: Dataset, counting: Counting) -> None:  # noqa: F811
    split = resolve(task("brand"), shop)
    progress = Progress()
    plain, scrubbed = encode(shop, "brand", HUB, "title", progress=progress)
    assert progress.notes["texts_scrubbed"] == 10
    assert [len(asked) for asked in counting.asked] == [20, 10]
    assert np.array_equal(plain[10:], scrubbed[10:])
    expected = encode_texts(scrubbed_items(shop.items, split).plain_text(("title",)), HUB, Progress())
    assert np.array_equal(scrubbed, expected)


@pytest.mark.parametrize("kind", ["item", "interaction"])
def test_where_nothing_is_scrubbed_both_are_the_same(shop: Dataset, kind: str) -> None:
    plain, scrubbed = encode(shop, kind, parse_encoder("tfidf:16"), "title")
    assert plain is scrubbed


def test_the_fields_decide_what_is_encoded(shop: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def watching(texts: Sequence[str], dim: int, progress: Progress) -> NDArray[np.float32]:
        seen.append(list(texts))
        return np.eye(len(texts), 3, dtype=np.float32)

    monkeypatch.setattr(encoders, "tfidf", watching)
    encode(shop, "brand", parse_encoder("tfidf"), "brand")
    assert seen[0] == ["Acme"] * 10 + ["Zenith"] * 10
    assert seen[1] == [f"i{row}" for row in range(10)] + ["Zenith"] * 10
