"""Amazon 2018 (junk of every kind, counted by reason) and 2023 (jsonl or rating csv, brands from details or store)."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.amazon import read_2018, read_2023
from genrec_unlearn_bench.data.raw import Interactions, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from tests.data.formats.files import write, write_lines

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
    raw = read_2018(files, Progress())
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
        "broken JSON line in X_5.json.gz": 1,
        "broken JSON line in meta_X.json.gz": 1,
        "review without user, item or time": 2,
        "review of an item without metadata": 1,
        "repeated metadata of an item (the first one counts)": 1,
        "metadata of an item without reviews": 1,
        "metadata without an asin": 1,
        "title is a script or a style sheet (title left out)": 1,
        "brand field names no brand (brand left out)": 1,
        "price is not a number (price left out)": 1,
        "negative price (price left out)": 1,
    }


def test_not_a_review_file(tmp_path: Path) -> None:
    meta = write_lines(tmp_path / "meta_X.json", META_2018)
    with pytest.raises(DataFault, match=r"3 of 3 lines are no JSON objects; line 1"):
        read_2018({"meta": meta, "reviews": write(tmp_path / "X.json", "a,b\n1,2\n3,4\n")}, Progress())
    with pytest.raises(DataFault, match="no review can be used"):
        read_2018({"meta": meta, "reviews": write_lines(tmp_path / "Y.json", [{"asin": "B1"}])}, Progress())


def test_metadata_of_another_category(tmp_path: Path) -> None:
    files = {
        "meta": write_lines(tmp_path / "meta_X.json", [{"asin": "Z"}]),
        "reviews": write_lines(tmp_path / "X.json", REVIEWS_2018[:3]),
    }
    with pytest.raises(DataFault, match="3 of 3 interactions name items"):
        read_2018(files, Progress())


META_2023: list[dict[str, object] | str] = [
    {"parent_asin": "P1", "title": "Kite", "details": {"Brand": "Acme"}, "store": "Other", "price": 12.5},
    {
        "parent_asin": "P2",
        "title": "Ball",
        "details": {"Color": "red"},
        "store": "Visit the Zeta Store",
        "price": "from 3.00",
    },
    {
        "parent_asin": "P3",
        "title": "Rope",
        "details": '{"Brand": "Acme"}',
        "price": None,
        "categories": ["Toys", "Ropes"],
    },
    {"parent_asin": "P4", "store": None, "price": "—", "details": "not json"},
    {"title": "no id"},
]
ROWS = [("u1", "P1", 1_700_000_000_123), ("u2", "P2", 1), ("u1", "P3", 2), ("u1", "P4", 3)]


def check_2023(raw: RawData) -> None:
    assert raw.items.ids == ("P1", "P2", "P3", "P4")
    assert raw.items.brands == ("Acme", "Zeta", "Acme", "")
    assert raw.items.prices[:2].tolist() == [12.5, 3.0]
    assert all(math.isnan(price) for price in raw.items.prices[2:])
    assert isinstance(raw.log, Interactions)
    assert raw.log.times is not None
    assert raw.log.users.tolist() == [0, 1, 0, 0]
    assert raw.log.items.tolist() == [0, 1, 2, 3]
    assert raw.log.times.tolist() == [time for _, _, time in ROWS]
    assert raw.dropped["metadata without a parent_asin"] == 1


def test_jsonl(tmp_path: Path) -> None:
    reviews = [{"user_id": user, "parent_asin": item, "timestamp": time, "rating": 5.0} for user, item, time in ROWS]
    files = {
        "meta": write_lines(tmp_path / "meta_X.jsonl", META_2023),
        "reviews": write_lines(tmp_path / "X.jsonl.gz", reviews),
    }
    check_2023(read_2023(files, Progress()))


def test_rating_csv(tmp_path: Path) -> None:
    text = "user_id,parent_asin,rating,timestamp\n" + "".join(f"{u},{i},5.0,{t}\n" for u, i, t in ROWS) + "u9,P1\n"
    files = {"meta": write_lines(tmp_path / "meta_X.jsonl", META_2023), "ratings": write(tmp_path / "X.csv.gz", text)}
    raw = read_2023(files, Progress())
    check_2023(raw)
    assert raw.dropped["rating with missing columns"] == 1


def test_csv_without_its_columns(tmp_path: Path) -> None:
    files = {
        "meta": write_lines(tmp_path / "meta_X.jsonl", META_2023),
        "ratings": write(tmp_path / "X.csv", "user,item\nu,P1\n"),
    }
    with pytest.raises(DataFault, match="missing columns user_id, parent_asin, timestamp"):
        read_2023(files, Progress())
