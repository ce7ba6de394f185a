"""One brand has one name, junk has none, and the source's spelling is kept beside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.data.fields import brand_key, clean_brand, normalise_brands


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("by Sony", "Sony"),
        ("by\n    \n    Disney", "Disney"),
        ("By:\nDisney", "Disney"),
        ("LEGO by", "LEGO"),
        ("Visit the LEGO Store", "LEGO"),
        ("Brand: Acme", "Acme"),
        ("<b>3M</b>", "3M"),
        ("Alice &amp; Smith", "Alice & Smith"),
        ("Smith &  Wesson", "Smith & Wesson"),
        ('"Foo"', "Foo"),
        # What only looks like furniture or junk:
        ("By Terry", "By Terry"),
        ("DMSO Store", "DMSO Store"),
        ("3909", "3909"),
        ("B.E.S.T.", "B.E.S.T."),
        ("Bybee", "Bybee"),
    ],
)
def test_clean_brand(raw: str, name: str) -> None:
    assert clean_brand(raw) == name


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "  ",
        ".",
        "-",
        "n/a",
        "N/A",
        "Unknown",
        "NONE",
        "Generic",
        "by",
        "...",
        ".a {b: c}",
        "x" * 121,
        "function(){}",
    ],
)
def test_junk_names_no_brand(junk: str) -> None:
    assert clean_brand(junk) == ""


def test_the_most_frequent_spelling_wins_and_ties_go_to_the_first() -> None:
    column = normalise_brands(["CAPCOM", "Capcom", "by Capcom", "", "ＳＥＧＡ", "Sega", "n/a", ".a{b:c}"])
    assert column.names == ("Capcom", "Capcom", "Capcom", "", "ＳＥＧＡ", "ＳＥＧＡ", "", "")
    assert column.raw == ("CAPCOM", "Capcom", "by Capcom", "", "ＳＥＧＡ", "Sega", "n/a", "")
    assert column.junk == 2


@given(st.lists(st.sampled_from(["Acme", "ACME", "acme ", "by acme", "Zeta", "zeta", "", "N/A"]), max_size=30))
def test_identity_is_the_key(values: list[str]) -> None:
    column = normalise_brands(values)
    keys = {brand_key(name) for name in column.names if name}
    assert len(keys) == len({name for name in column.names if name})
    for value, name in zip(values, column.names, strict=True):
        assert brand_key(clean_brand(value)) == brand_key(name)
