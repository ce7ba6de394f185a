"""Amazon's raw files of 2018: junk of every kind is counted."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.reader import UNKNOWN_ITEM
from genrec_unlearn_bench.data.splits import Interactions
from genrec_unlearn_bench.errors import DataFault
from tests.data.formats.files import read_as, write, write_lines

META_2018: list[dict[str, object] | str] = [
    {
        "asin": "B1",
        "title": '<span class="a-size-medium a-color-secondary"',
        "brand": "by\n    Acme",
        "price": "$1,299.00 - $2,000.00",
        "category": ["Tools &amp; Home", "</span></span>", "Drills"],
        "description": ["Drills &amp; more", ["nested"], ""],
    },
    {"asin": "B1", "title": "second record of the same product"},
    {"asin": "B2", "title": "Saw", "brand": ".a-section { x: y }", "price": ".a-box-inner{background-color:#fff}"},
    {"asin": "B3", "title": "var aPageStart = (new Date());", "price": "-$3.00", "categories": [["Tools", "Saws"]]},
    {"asin": "B9", "title": "never reviewed"},
    {"title": "no asin"},
    '{"asin": "B4", "title": "broken',
]
REVIEWS_2018: list[dict[str, object] | str] = [
    {"reviewerID": "A", "asin": "B1", "unixReviewTime": 30, "overall": 5.0, "reviewText": "ok"},
    {"reviewerID": "B", "asin": "B2", "unixReviewTime": 20},
    {"reviewerID": "A", "asin": "B3", "unixReviewTime": "10"},
    {"reviewerID": "A", "asin": "GONE", "unixReviewTime": 10},
    {"reviewerID": "A", "asin": "B1"},
    {"asin": "B1", "unixReviewTime": 30},
    "not json",
]


def test_junk(tmp_path: Path) -> None:
    files = {
        "meta": write_lines(tmp_path / "meta_X.json.gz", META_2018),
        "reviews": write_lines(tmp_path / "X_5.json.gz", REVIEWS_2018),
    }
    raw = read_as("amazon-2018", files)
    items = raw.items
    assert items.ids == ("B1", "B2", "B3")
    assert items.titles == ("", "Saw", "")
    assert items.brands == ("Acme", "", "")
    assert items.brands_raw == ("by Acme", "", "")
    assert items.categories == (("Tools & Home", "Drills"), (), ("Tools", "Saws"))
    assert items.descriptions[0] == "Drills & more nested"
    assert items.prices[0] == 1299.0
    assert all(math.isnan(price) for price in items.prices[1:])
    assert isinstance(raw.log, Interactions)
    assert raw.log.times is not None
    assert raw.log.users.tolist() == [0, 1, 0]
    assert raw.log.items.tolist() == [0, 1, 2]
    assert raw.log.times.tolist() == [30, 20, 10]
    assert Counter(raw.dropped) == {
        "line of X_5.json.gz that cannot be used": 3,
        "line of meta_X.json.gz that cannot be used": 3,
        UNKNOWN_ITEM: 1,
        "item without interactions": 1,
        "title is a script or a style sheet (title left out)": 1,
        "brand field names no brand (brand left out)": 1,
        "price is not a number (price left out)": 1,
        "negative price (price left out)": 1,
    }


def test_not_a_review_file(tmp_path: Path) -> None:
    meta = write_lines(tmp_path / "meta_X.json", META_2018)
    with pytest.raises(DataFault, match="3 faults in the data"):
        read_as("amazon-2018", {"meta": meta, "reviews": write(tmp_path / "X.json", "a,b\n1,2\n3,4\n")})
    with pytest.raises(DataFault, match=r"the (item|user) is empty"):
        read_as("amazon-2018", {"meta": meta, "reviews": write_lines(tmp_path / "Y.json", [{"asin": "B1"}])})


def test_metadata_of_another_category(tmp_path: Path) -> None:
    files = {
        "meta": write_lines(tmp_path / "meta_X.json", [{"asin": "Z"}]),
        "reviews": write_lines(tmp_path / "X.json", REVIEWS_2018[:3]),
    }
    with pytest.raises(DataFault, match="3 of 3 interactions name items"):
        read_as("amazon-2018", files)
