"""MiniOneRec: Python literals are parsed, never run; rows stay as they are."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.splits import GivenRows, RawData
from genrec_unlearn_bench.errors import DataFault
from tests.data.formats.files import read_as, write

HEADER = "user_id,history_item_title,item_title,history_item_id,item_id,history_item_sid,item_sid"
ITEMS = {
    "10": {"title": "Ten", "description": "[]", "brand": "Zeta", "categories": ""},
    "2": {
        "title": "T&uuml;rl, with 'quotes'",
        "description": "['a &amp; b', \"it's\"]",
        "brand": "Acme",
        "categories": "A, B",
    },
    "0": {"title": "Zero", "description": "", "brand": "", "categories": ""},
}


def row(user: str, history: str, item: str, titles: str = "['x']") -> str:
    return f'{user},"{titles}","A, title",{history},{item},[\'<a_1>\'],<a_1>'


def rows(*lines: str) -> str:
    return "\n".join([HEADER, *lines]) + "\n"


def files(tmp_path: Path, train: str, catalogue: dict[str, dict[str, str]] | None = None) -> dict[str, Path]:
    part = rows(row("A2", '"[0, 2]"', "10"))
    return {
        "train": write(tmp_path / "train.csv", train),
        "valid": write(tmp_path / "valid.csv", part),
        "test": write(tmp_path / "test.csv", part),
        "items": write(tmp_path / "x.item.json", json.dumps(catalogue or ITEMS)),
    }


def load(tmp_path: Path, train: str) -> RawData:
    return read_as("minionerec", files(tmp_path, train))


def test_rows_as_given(tmp_path: Path) -> None:
    raw = load(tmp_path, rows(row("A1", '"[10, 0]"', "2"), row("A2", "\"['0', 2]\"", "0"), row("A1", "[2]", "2")))
    assert raw.items.ids == ("0", "2", "10")
    assert raw.items.titles == ("Zero", "Türl, with 'quotes'", "Ten")
    assert raw.items.descriptions == ("", "a & b it's", "")
    assert raw.items.categories == ((), ("A", "B"), ())
    assert isinstance(raw.log, GivenRows)
    train = raw.log.train
    assert train.users.tolist() == [0, 1, 0]
    assert train.targets.tolist() == [1, 0, 1]
    assert train.histories.tolist() == [2, 0, 0, 1, 1]
    assert train.lengths.tolist() == [2, 2, 1]
    assert raw.log.test.users.tolist() == [1]
    assert raw.log.test.targets.tolist() == [2]


def test_code_is_not_run(tmp_path: Path) -> None:
    target = tmp_path / "ran"
    attack = f"\"__import__('pathlib').Path('{target}').touch()\""
    with pytest.raises(DataFault, match=r"train.csv:2: the history is no list of items"):
        load(tmp_path, rows(row("A1", attack, "2")))
    nested = f"\"[__import__('pathlib').Path('{target}').touch()]\""
    with pytest.raises(DataFault, match="no list of items"):
        load(tmp_path, rows(row("A1", nested, "2")))
    assert not target.exists()


@pytest.mark.parametrize(
    "cell", ["[" * 50_000, "[" + "-" * 200_000 + "1]", "[" + "1+" * 100_000 + "1]", "[9e999]", "[1.5]"]
)
def test_hostile_literals(tmp_path: Path, cell: str) -> None:
    with pytest.raises(DataFault, match="no list of items"):
        load(tmp_path, rows(row("A1", cell, "2")))


def test_drops_are_counted(tmp_path: Path) -> None:
    lines = [row("A1", '"[0, 77]"', "2"), row("A1", "[77]", "2"), row("A1", "[]", "2"), row("A1", "[0]", "99")]
    raw = load(tmp_path, rows(*lines))
    assert isinstance(raw.log, GivenRows)
    assert raw.log.train.histories.tolist() == [0]
    assert raw.dropped["history item that the catalogue does not have"] == 2
    assert raw.dropped["train row with an empty history"] == 2
    assert raw.dropped["train row with a target that the catalogue does not have"] == 1


def test_long_cells(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    titles = "['" + "long " * 60_000 + "']"
    raw = load(tmp_path, rows(row("A1", "[0]", "2", titles=titles)))
    assert len(raw.log) == 3
    assert csv.field_size_limit() == limit


def test_missing_column_and_short_row(tmp_path: Path) -> None:
    with pytest.raises(DataFault, match="no column item_id, history_item_id"):
        load(tmp_path, "user_id,item\nA,1\n")
    with pytest.raises(DataFault, match=r"train.csv:3: 2 cells, and 7 columns"):
        load(tmp_path, rows(row("A1", "[0]", "2"), "A1,x"))
