"""LETTER: whole sequences, a catalogue from item.json, index.json or the items themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.folder import UNKNOWN_ITEM
from genrec_unlearn_bench.data.formats.letter import read
from genrec_unlearn_bench.data.raw import Sequences
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from tests.data.formats.files import write

INTER = {"0": [0, 10, 2], "1": [2, 0], "2": []}


def test_catalogue_from_the_index(tmp_path: Path) -> None:
    files = {
        "sequences": write(tmp_path / "x.inter.json", json.dumps(INTER, indent=1)),
        "index": write(tmp_path / "x.index.json", json.dumps({str(n): ["<a_1>"] for n in (10, 2, 0, 3)})),
    }
    raw = read(files, Progress())
    assert raw.items.ids == ("0", "2", "3", "10")
    assert isinstance(raw.log, Sequences)
    assert raw.log.users.tolist() == [0, 0, 0, 1, 1]
    assert raw.log.items.tolist() == [0, 3, 1, 1, 0]
    assert raw.notes


def test_catalogue_from_items_and_unknown_ones(tmp_path: Path) -> None:
    files = {
        "sequences": write(tmp_path / "x.inter.json", json.dumps(INTER)),
        "items": write(tmp_path / "x.item.json", json.dumps({"0": {"title": "Zero"}, "2": {"title": "Two"}})),
    }
    raw = read(files, Progress())
    assert raw.items.titles == ("Zero", "Two")
    assert isinstance(raw.log, Sequences)
    assert raw.log.items.tolist() == [0, 1, 1, 0]
    assert raw.dropped == {UNKNOWN_ITEM: 1}


def test_items_that_occur(tmp_path: Path) -> None:
    raw = read({"sequences": write(tmp_path / "x.inter.json", json.dumps(INTER))}, Progress())
    assert raw.items.ids == ("0", "2", "10")


@pytest.mark.parametrize("content", [{"0": "12"}, {"0": [1, "x"]}, {"0": [1.5]}, {"0": None}])
def test_broken_sequences(tmp_path: Path, content: object) -> None:
    with pytest.raises(DataFault, match="user '0' has no list of item numbers"):
        read({"sequences": write(tmp_path / "x.inter.json", json.dumps(content))}, Progress())
