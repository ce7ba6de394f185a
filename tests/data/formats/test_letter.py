"""LETTER: whole sequences, a catalogue from item.json, index.json or the items themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.examples import PAD
from genrec_unlearn_bench.data.formats.reader import UNKNOWN_ITEM
from genrec_unlearn_bench.data.formats.records import read_index
from genrec_unlearn_bench.data.splits import Interactions
from genrec_unlearn_bench.errors import DataFault
from tests.data.formats.files import read_as, write

INTER = {"0": [0, 10, 2], "1": [2, 0], "2": []}


def test_catalogue_from_the_index(tmp_path: Path) -> None:
    files = {
        "sequences": write(tmp_path / "x.inter.json", json.dumps(INTER, indent=1)),
        "index": write(tmp_path / "x.index.json", json.dumps({str(n): ["<a_1>"] for n in (10, 2, 0, 3)})),
    }
    raw = read_as("letter", files)
    assert raw.items.ids == ("0", "2", "3", "10")
    assert isinstance(raw.log, Interactions)
    assert raw.log.times is None
    assert raw.log.users.tolist() == [0, 0, 0, 1, 1]
    assert raw.log.items.tolist() == [0, 3, 1, 1, 0]
    assert raw.notes


def test_catalogue_from_items_and_unknown_ones(tmp_path: Path) -> None:
    files = {
        "sequences": write(tmp_path / "x.inter.json", json.dumps(INTER)),
        "items": write(tmp_path / "x.item.json", json.dumps({"0": {"title": "Zero"}, "2": {"title": "Two"}})),
    }
    raw = read_as("letter", files)
    assert raw.items.titles == ("Zero", "Two")
    assert isinstance(raw.log, Interactions)
    assert raw.log.times is None
    assert raw.log.items.tolist() == [0, 1, 1, 0]
    assert raw.dropped == {UNKNOWN_ITEM: 1}


def test_items_that_occur(tmp_path: Path) -> None:
    raw = read_as("letter", {"sequences": write(tmp_path / "x.inter.json", json.dumps(INTER))})
    assert raw.items.ids == ("0", "2", "10")


@pytest.mark.parametrize("content", [{"0": "12"}, {"0": [1, ""]}, {"0": [1.5]}, {"0": None}])
def test_broken_sequences(tmp_path: Path, content: object) -> None:
    with pytest.raises(DataFault, match=r"user '0': (has no list of items|the item is )"):
        read_as("letter", {"sequences": write(tmp_path / "x.inter.json", json.dumps(content))})


def test_codes_in_the_order_asked_for(tmp_path: Path) -> None:
    index = {"0": ["<a_3>", "<b_0>", "<c_7>"], "1": ["<a_0>", "<b_5>"], "9": ["<a_99>"]}
    codes = read_index(write(tmp_path / "i.json", json.dumps(index)), ["1", "0"])
    assert codes.tolist() == [[0, 5, PAD], [3, 0, 7]]


def test_faults_together(tmp_path: Path) -> None:
    index = {"0": ["<b_3>"], "1": ["a_1"], "2": "<a_1>", "3": [], "4": ["<a_1>", "<c_1>"], "5": ["<a_1>"]}
    with pytest.raises(DataFault) as caught:
        read_index(write(tmp_path / "i.json", json.dumps(index)), [str(n) for n in range(7)])
    assert caught.value.what.startswith("6 faults")


def test_an_index_of_a_larger_catalogue_is_refused_where_it_has_to_be_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "i.json", json.dumps({str(n): [f"<a_{n}>"] for n in range(5)}))
    assert len(read_index(path, ["0", "1"])) == 2, "a part of the items may have been filtered out"
    with pytest.raises(DataFault, match="names 5 items, and the catalogue has 2"):
        read_index(path, ["0", "1"], whole=True)
