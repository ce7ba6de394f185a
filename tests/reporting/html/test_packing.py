"""Packed columns give back what was packed, to six significant digits."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.reporting.html.blocks import Table, packed, uniform
from genrec_unlearn_bench.reporting.wording import six
from tests.reporting.html.sites import unpacked

NUMBERS = st.floats(min_value=-1e30, max_value=1e30, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-30)


@given(st.lists(NUMBERS | st.none(), min_size=1, max_size=20))
def test_numbers_come_back_with_six_digits(values: list[float | None]) -> None:
    text = packed(values)
    if all(value is None for value in values):
        assert text == ""
    else:
        assert unpacked(text) == [six(value) for value in values]


def test_a_small_p_does_not_become_nothing() -> None:
    found = unpacked(packed([2.2e-308, 0.0, None]))
    assert found[0] is not None
    assert 0 < found[0] < 1e-30
    assert found[1:] == [0.0, None]


def test_what_is_no_number_is_none() -> None:
    assert unpacked(packed([1.0, math.nan, math.inf])) == [1.0, None, None]


def test_equal_numbers_are_kept_once() -> None:
    assert uniform([3, 3, 3]) == 3
    assert uniform([3, 4]) == (3, 4)
    assert uniform([]) == ()


def test_a_table_numbers_things_as_they_come() -> None:
    table = Table(["", "b"])
    assert [table.number(thing) for thing in ("c", "b", "c", "")] == [2, 1, 2, 0]
    assert table.things == ("", "b", "c")
