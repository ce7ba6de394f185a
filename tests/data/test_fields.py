"""Scraped text comes out readable, and nothing that a scraper can write takes long."""

from __future__ import annotations

import math
import re
import time
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.data.fields import (
    JUNK_PRICE,
    NEGATIVE_PRICE,
    brand_key,
    clean_brand,
    looks_like_code,
    normalise_brands,
    parse_price,
    plain,
)


@pytest.mark.parametrize(
    ("scraped", "readable"),
    [
        ('<span class="a-size-medium a-color-secondary"', ""),
        ("F&amp;amp;W Publications", "F&W Publications"),
        ("T&Uuml;RLEN", "TÜRLEN"),
        ("&lt;i&gt;Maximum&lt;/i&gt; PC", "Maximum PC"),
        ("<b>2&#34;</b> pipe", '2" pipe'),
        ('Industrial & Scientific" />', "Industrial & Scientific"),
        ("AT&T, Black&notable &co", "AT&T, Black&notable &co"),
        ("a < b and c > d", "a < b and c > d"),
        ("one<script>var x = 1;</script>two<style>p{}</style>three<!-- four", "one two three"),
        ("  two \n\t lines ", "two lines"),
        ("bell\x07 and \x1b[31mred", "bell and [31mred"),
        ("half a pair \ud83d", "half a pair ?"),
        ("Cafe\u0301", "Café"),
    ],
)
def test_readable(scraped: str, readable: str) -> None:
    assert plain(scraped) == readable


@given(st.text())
def test_always_storable_on_one_line(text: str) -> None:
    readable = plain(text)
    readable.encode()
    assert readable == " ".join(readable.split())
    assert not any(ord(character) < 32 for character in readable)


@pytest.mark.parametrize(
    "text", [".a-section { margin: 0 }", "function() { return 1; }", "var aPageStart = 3", "p.x{color:red}", "#id .b {"]
)
def test_code_is_recognised(text: str) -> None:
    assert looks_like_code(text)


@pytest.mark.parametrize(
    "text", ["Smith & Wesson", "Tool {Set of 3}", "B.E.S.T.", "#1 Fan", "Variety Pack", ".22 ammo"]
)
def test_names_are_no_code(text: str) -> None:
    assert not looks_like_code(text)


@pytest.mark.parametrize(
    "text",
    ["<script " * 20_000, "<!--" * 30_000, "{" + ":" * 100_000, "<a b=" * 20_000, '"' * 50_000 + ">", "&amp;" * 20_000],
    ids=["script", "comment", "braces", "attributes", "quotes", "entities"],
)
def test_linear_in_the_text(text: str) -> None:
    start = time.process_time()
    plain(text)
    looks_like_code(text)
    assert time.process_time() - start < 1.0


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


@pytest.mark.parametrize(
    ("field", "price"),
    [
        ("$12.99", 12.99),
        ("1,299.00", 1299.0),
        ("$1,299", 1299.0),
        ("12,99", 12.99),
        ("1.299,00 €", 1299.0),
        ("€1.299", 1299.0),
        ("1.299.000 EUR", 1_299_000.0),
        ("€ 12.99", 12.99),
        ("€0.999", 0.999),
        ("€1.299 - €2.499", 1299.0),
        ("$1.299", 1.299),
        (Decimal("12.50"), 12.5),
        ("$10.00 - $20.00", 10.0),
        ("$20.00 - $10.00", 10.0),
        ("$9.99–$499.00", 9.99),
        ("from 14.99", 14.99),
        (".99", 0.99),
        ("5 USD", 5.0),
        ("free", 0.0),
        (0, 0.0),
        (19.5, 19.5),
    ],
)
def test_prices(field: object, price: float) -> None:
    assert parse_price(field) == pytest.approx(price)


@pytest.mark.parametrize("field", [None, "", " ", "—", "N/A", float("nan"), "None"])
def test_no_price_is_no_fault(field: object) -> None:
    assert math.isnan(parse_price(field))


@pytest.mark.parametrize("field", ["-5", "-$5.00", "$-5.00", -2, -0.01, "$5 - -$3"])
def test_negative(field: object) -> None:
    with pytest.raises(ValueError, match=re.escape(NEGATIVE_PRICE)):
        parse_price(field)


@pytest.mark.parametrize(
    "field",
    [
        ".a-box { color: red }",
        "Currently unavailable",
        "1,2,3",
        "1.2.3",
        "12 34",
        True,
        [1],
        {"p": 1},
        float("inf"),
        10**400,
    ],
)
def test_junk(field: object) -> None:
    with pytest.raises(ValueError, match=re.escape(JUNK_PRICE)):
        parse_price(field)


@given(st.integers(0, 9_999_999))
def test_every_cent_survives_formatting(cents: int) -> None:
    assert parse_price(f"${cents / 100:,.2f}") == pytest.approx(cents / 100)


@given(st.text(max_size=80))
def test_any_text_gives_a_price_or_none(text: str) -> None:
    price = math.nan
    with suppress(ValueError):
        price = parse_price(text)
    assert math.isnan(price) or price >= 0
