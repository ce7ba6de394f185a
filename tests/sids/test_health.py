from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.sids.health import SidHealth, health
from genrec_unlearn_bench.sids.table import SidTable, from_index

CODES = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 0], [1, 1, 1], [3, 2, 0]])


def report(**options: object) -> SidHealth:
    return health(SidTable(CODES, (4, 4, 2), 2), **options)  # type: ignore[arg-type]


def test_usage_by_hand() -> None:
    first, second, last = report().levels
    assert (first.used, first.size, first.used_share) == (3, 4, 0.75)
    assert first.largest_share == 0.5
    shares = np.array([3, 2, 1]) / 6
    assert first.perplexity == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))
    assert [level.prefixes for level in (first, second, last)] == [3, 4, 6]
    assert (first.quantised, last.quantised) == (True, False)
    assert first.error is None


def test_collisions_by_hand() -> None:
    made = report()
    assert made.quantised_collisions.model_dump() == {"groups": 2, "items": 4, "excess": 2, "largest": 2}
    assert made.collisions.model_dump() == {"groups": 0, "items": 0, "excess": 0, "largest": 1}


def test_purity_by_hand() -> None:
    made = report(
        brands=["a", "a", "b", "c", "", "c"],
        categories=["x"] * 6,
        items_by_concept=np.array([True, False, True, False, False, True]),
    )
    one, two = made.prefixes
    assert (one.shared, two.shared) == (2, 2)
    # First codes: 0 holds a, a, b (mixed); 1 holds c and an item without a brand (not counted).
    assert one.brand_pure == 0.0
    assert two.brand_pure == 1.0
    assert one.category_pure == 1.0
    assert one.concept_shared == pytest.approx(2 / 3)
    assert two.concept_shared == pytest.approx(1 / 3)
    assert report().prefixes[0].brand_pure is None
    assert report(brands=[""] * 6).prefixes[0].brand_pure is None


def test_uniform_usage_has_full_perplexity_and_one_code_has_one() -> None:
    table = SidTable(np.stack([np.arange(8), np.zeros(8, np.int64)], axis=1), (8, 8), 2)
    first, second = health(table).levels
    assert first.perplexity == pytest.approx(8)
    assert second.perplexity == pytest.approx(1)


def test_error_and_nearest_share_follow_the_codes() -> None:
    words = np.array([[0.0], [10.0]], np.float32)
    latents = np.array([[1.0], [9.0], [0.0], [10.0]], np.float32)
    table = SidTable(np.array([[0], [1], [0], [1]]), (2,), 1, (words,), latents)
    level = health(table).levels[0]
    assert level.error == pytest.approx(0.5 / latents.var())
    assert level.nearest_share == 1.0
    moved = health(table.reassigned(np.array([0]), np.array([[1]]))).levels[0]
    assert moved.nearest_share == 0.75
    assert moved.error == pytest.approx((81 + 1) / 4 / latents.var())


def test_padded_tables_are_reported() -> None:
    made = health(from_index(np.array([[0, 1], [0, -1], [1, -1]])))
    assert [level.used for level in made.levels] == [2, 1]
    assert made.collisions.groups == 0


@pytest.mark.skipif("GENREC_UNLEARN_BENCH_DATA" not in os.environ, reason="needs the real datasets")
def test_the_published_industrial_index_has_its_known_health() -> None:
    folder = Path(os.environ["GENREC_UNLEARN_BENCH_DATA"]) / "industrial-minionerec" / "index"
    index = json.loads((folder / "Industrial_and_Scientific.index.json").read_text())
    items = json.loads((folder / "Industrial_and_Scientific.item.json").read_text())
    ids = sorted(index, key=int)
    codes = np.array([[int(token.split("_")[1].rstrip(">")) for token in index[i]] for i in ids])
    made = health(from_index(codes, (256, 256, 256)), brands=[items[i]["brand"] for i in ids])
    assert made.items == 3686
    assert [level.prefixes for level in made.levels] == [48, 2295, 3670]
    assert made.levels[0].used == 48
    assert made.levels[0].largest_share == pytest.approx(0.067, abs=0.001)
    assert made.collisions.groups == 15
    assert made.collisions.excess == 16
    assert made.prefixes[1].shared == 691
    assert made.prefixes[1].brand_pure == pytest.approx(1 - 390 / 691, abs=0.01)
