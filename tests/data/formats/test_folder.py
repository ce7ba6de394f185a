"""The plain folder: strict, every fault with its line, unknown items counted."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.reader import UNKNOWN_ITEM
from genrec_unlearn_bench.data.splits import Interactions, RawData
from genrec_unlearn_bench.errors import DataFault
from tests.data.formats.files import read_as, write, write_lines

ITEMS = [
    {
        "item_id": "a",
        "title": "Red &amp; blue <b>kite</b>",
        "brand": "by Acme",
        "price": "$5.00",
        "categories": ["Toys", ["Kites", "Toys"]],
        "text": "wind",
    },
    {"item_id": 7, "price": -1, "brand": "acme", "description": ["flies", "well"]},
    {"item_id": "c", "title": "", "price": "junk", "brand": "n/a", "extra": {"ignored": True}},
]
TSV = "user\titem\ttimestamp\nu1\ta\t10\nu2\t7\t5\nu1\tc\t10\nu1\tghost\t11\n"


def folder(tmp_path: Path, items: object = None, log: str = TSV, name: str = "interactions.tsv") -> RawData:
    lines = ITEMS if items is None else items
    assert isinstance(lines, list)
    files = {"items": write_lines(tmp_path / "items.jsonl", lines), name.split(".")[0]: write(tmp_path / name, log)}
    return read_as("folder", files)


def test_items(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    items = raw.items
    assert items.ids == ("a", "7", "c")
    assert items.titles == ("Red & blue kite", "", "")
    assert items.descriptions == ("", "flies well", "")
    assert items.brands == ("Acme", "Acme", "")
    assert items.brands_raw == ("by Acme", "acme", "n/a")
    assert items.categories == (("Toys", "Kites"), (), ())
    assert items.texts == ("wind", "", "")
    assert items.prices[0] == 5.0
    assert all(math.isnan(price) for price in items.prices[1:])
    assert raw.dropped == {
        "negative price (price left out)": 1,
        "price is not a number (price left out)": 1,
        "brand field names no brand (brand left out)": 1,
        "field 'extra' of an item is not read": 1,
        UNKNOWN_ITEM: 1,
    }


def test_interactions_stay_in_source_order(tmp_path: Path) -> None:
    log = folder(tmp_path).log
    assert isinstance(log, Interactions)
    assert log.users.tolist() == [0, 1, 0]
    assert log.items.tolist() == [0, 1, 2]
    assert log.times.tolist() == [10, 5, 10]


def test_columns_by_name(tmp_path: Path) -> None:
    tsv = "rating\ttime\titem_id\tuser_id\n5\t12.0\ta\tu1\n"
    log = folder(tmp_path, log=tsv).log
    assert isinstance(log, Interactions)
    assert (log.users.tolist(), log.items.tolist(), log.times.tolist()) == ([0], [0], [12])


def test_sequences(tmp_path: Path) -> None:
    raw = folder(tmp_path, log="u1\ta 7 a\nu2\tghost\nu3\tc a", name="sequences.tsv.gz")
    assert isinstance(raw.log, Interactions)
    assert raw.log.times is None
    assert raw.log.users.tolist() == [0, 0, 0, 2, 2]
    assert raw.log.items.tolist() == [0, 1, 0, 2, 0]
    assert raw.dropped[UNKNOWN_ITEM] == 1


@pytest.mark.parametrize("above", ["user\titems\n", "\n \nuser_id\tsequence\n"])
def test_the_first_row_of_sequences_may_be_a_header(tmp_path: Path, above: str) -> None:
    log = folder(tmp_path, log=f"{above}u1\ta 7\nuser\titems a\nuser_id\ta", name="sequences.tsv").log
    assert isinstance(log, Interactions)
    assert log.users.tolist() == [0, 0, 1, 2]


def test_all_item_faults_at_once(tmp_path: Path) -> None:
    lines = [
        {"item_id": "a"},
        '{"item_id": "b"',
        {"title": "x"},
        {"item_id": "a"},
        [1],
        {"item_id": "  "},
        {"item_id": True},
    ]
    with pytest.raises(DataFault) as caught:
        folder(tmp_path, items=lines)
    what = caught.value.what
    assert what.startswith("6 faults")
    assert "items.jsonl:2: broken JSON" in what
    assert "items.jsonl:3: the item's id is empty" in what
    assert "items.jsonl:4: item 'a' is in line 1 already" in what
    assert "items.jsonl:5: a JSON object is expected, not list" in what
    assert "items.jsonl:6: the item's id is empty" in what
    assert "items.jsonl:7" in what


def test_all_interaction_faults_at_once(tmp_path: Path) -> None:
    tsv = "user\titem\ttimestamp\nu1\ta\nu1\ta\tnoon\n\ta\t1\nu1\ta\t1.5\nu1\ta\t99999999999999999999\nu1\ta\t1\n"
    with pytest.raises(DataFault) as caught:
        folder(tmp_path, log=tsv)
    what = caught.value.what
    assert what.startswith("5 faults")
    assert "interactions.tsv:2: 2 cells, and 3 columns" in what
    assert "interactions.tsv:3: the timestamp 'noon'" in what
    assert "interactions.tsv:4: the user is empty" in what


def test_missing_column(tmp_path: Path) -> None:
    with pytest.raises(DataFault, match="no column item or item_id, timestamp or time"):
        folder(tmp_path, log="user\tproduct\nu1\ta\n")
    with pytest.raises(DataFault, match="no column user or user_id, item or item_id"):
        folder(tmp_path, log="u1\ta\t10\n")


def test_sequence_faults(tmp_path: Path) -> None:
    with pytest.raises(DataFault) as caught:
        folder(tmp_path, log="u1\ta 7\nu2 a 7\nu1\tc\n", name="sequences.tsv")
    assert "sequences.tsv:2: a user, a tab" in caught.value.what
    assert "sequences.tsv:3: user 'u1' is in line 1 already" in caught.value.what


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    tsv = "user\titem\ttimestamp\nu1\tx\t1\nu1\ty\t2\nu1\ta\t3\n"
    with pytest.raises(DataFault, match="2 of 3 interactions name items"):
        folder(tmp_path, log=tsv)


def test_header_alone(tmp_path: Path) -> None:
    raw = folder(tmp_path, log="user\titem\ttimestamp\n")
    assert len(raw.log) == 0
