"""Published semantic IDs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.sid_index import MISSING_LEVEL, read_index
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
