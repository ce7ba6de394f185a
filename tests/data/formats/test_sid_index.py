"""Published semantic IDs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.letter import MISSING_LEVEL, read_index
from genrec_unlearn_bench.errors import DataFault
from tests.data.formats.files import write


def test_codes_in_the_order_asked_for(tmp_path: Path) -> None:
    index = {"0": ["<a_3>", "<b_0>", "<c_7>"], "1": ["<a_0>", "<b_5>"], "9": ["<a_99>"]}
    codes, sizes = read_index(write(tmp_path / "i.json", json.dumps(index)), ["1", "0"])
    assert codes.tolist() == [[0, 5, MISSING_LEVEL], [3, 0, 7]]
    assert sizes == (4, 6, 8)


def test_faults_together(tmp_path: Path) -> None:
    index = {"0": ["<b_3>"], "1": ["a_1"], "2": "<a_1>", "3": [], "4": ["<a_1>", "<c_1>"], "5": ["<a_1>"]}
    with pytest.raises(DataFault) as caught:
        read_index(write(tmp_path / "i.json", json.dumps(index)), [str(n) for n in range(7)])
    assert caught.value.what.startswith("6 faults")


def test_an_index_of_a_larger_catalogue_is_refused_where_it_has_to_be_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "i.json", json.dumps({str(n): [f"<a_{n}>"] for n in range(5)}))
    assert len(read_index(path, ["0", "1"])[0]) == 2, "a part of the items may have been filtered out"
    with pytest.raises(DataFault, match="names 5 items, and the catalogue has 2"):
        read_index(path, ["0", "1"], whole=True)
