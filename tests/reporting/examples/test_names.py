"""Item names on one line: the brand once, cut with an ellipsis."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.reporting.examples.page import clipped, item_name


def table(brand: str, title: str, description: str = "", text: str = "") -> ItemTable:
    one = (brand,)
    return ItemTable(("id 7",), (title,), (description,), one, one, np.full(1, np.nan), ((),), (text,))


@pytest.mark.parametrize(
    ("brand", "title", "expected"),
    [
        ("Loctite", "Loctite 40140 Clear", ("Loctite", "40140 Clear")),
        ("LOCTITE", "Loctite - Clear", ("LOCTITE", "Clear")),
        ("3M", "3Month Calendar", ("3M", "3Month Calendar")),
        ("Speedo", "Swim Cap by Speedo", ("Speedo", "Swim Cap by Speedo")),
        ("Speedo", "Speedo", ("Speedo", "")),
        ("", "AT&amp;T <b>cable</b>\n 2 m", ("", "AT&T cable 2 m")),
        ("Acme", "\x1b[31mred\x1b[0m", ("Acme", "[31mred [0m")),
    ],
)
def test_the_brand_is_said_once(brand: str, title: str, expected: tuple[str, str]) -> None:
    assert item_name(table(brand, title), 0) == expected


def test_what_stands_in_for_a_title() -> None:
    assert item_name(table("Acme", "", "A clamp."), 0) == ("Acme", "A clamp.")
    assert item_name(table("Acme", " ", "", "Words"), 0) == ("Acme", "Words")
    assert item_name(table("", "<br>"), 0) == ("", "id 7")
    assert len(item_name(table("", "word " * 200), 0)[1]) <= 200


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 5, "short"),
        ("brass hose fitting", 14, "brass hose fi…"),
        ("brass hose, fitting", 13, "brass hose…"),
        ("incomprehensibilities", 9, "incompre…"),
        ("abc", 1, "…"),
    ],
)
def test_cut_cleanly(text: str, width: int, expected: str) -> None:
    assert clipped(text, width) == expected
    assert len(clipped(text, width)) <= width
