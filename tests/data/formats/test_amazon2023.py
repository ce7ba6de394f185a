"""Amazon 2023: jsonl reviews or the rating csv, brands from details or store."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.amazon import read_2023 as read
from genrec_unlearn_bench.data.raw import Interactions, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from tests.data.formats.files import write, write_lines

META: list[dict[str, object] | str] = [
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


def check(raw: RawData) -> None:
    assert raw.items.ids == ("P1", "P2", "P3", "P4")
    assert raw.items.brands == ("Acme", "Zeta", "Acme", "")
    assert raw.items.prices[:2].tolist() == [12.5, 3.0]
    assert all(math.isnan(price) for price in raw.items.prices[2:])
    assert isinstance(raw.log, Interactions)
    assert raw.log.users.tolist() == [0, 1, 0, 0]
    assert raw.log.items.tolist() == [0, 1, 2, 3]
    assert raw.log.times.tolist() == [time for _, _, time in ROWS]
    assert raw.dropped["metadata without a parent_asin"] == 1


def test_jsonl(tmp_path: Path) -> None:
    reviews = [{"user_id": user, "parent_asin": item, "timestamp": time, "rating": 5.0} for user, item, time in ROWS]
    files = {
        "meta": write_lines(tmp_path / "meta_X.jsonl", META),
        "reviews": write_lines(tmp_path / "X.jsonl.gz", reviews),
    }
    check(read(files, Progress()))


def test_rating_csv(tmp_path: Path) -> None:
    text = "user_id,parent_asin,rating,timestamp\n" + "".join(f"{u},{i},5.0,{t}\n" for u, i, t in ROWS) + "u9,P1\n"
    files = {"meta": write_lines(tmp_path / "meta_X.jsonl", META), "ratings": write(tmp_path / "X.csv.gz", text)}
    raw = read(files, Progress())
    check(raw)
    assert raw.dropped["rating with missing columns"] == 1


def test_csv_without_its_columns(tmp_path: Path) -> None:
    files = {
        "meta": write_lines(tmp_path / "meta_X.jsonl", META),
        "ratings": write(tmp_path / "X.csv", "user,item\nu,P1\n"),
    }
    with pytest.raises(DataFault, match="missing columns: user_id, parent_asin, timestamp"):
        read(files, Progress())
