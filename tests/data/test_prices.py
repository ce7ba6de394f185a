"""Price fields as shops write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.data.fields import PriceFault, parse_price


@pytest.mark.parametrize(
    ("field", "price"),
    [
        ("$12.99", 12.99),
        ("1,299.00", 1299.0),
        ("$1,299", 1299.0),
        ("12,99", 12.99),
        ("1.299,00 €", 1299.0),
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
    assert parse_price(field).value == pytest.approx(price)
    assert parse_price(field).fault is None


@pytest.mark.parametrize("field", [None, "", " ", "—", "N/A", float("nan"), "None"])
def test_no_price_is_no_fault(field: object) -> None:
    assert math.isnan(parse_price(field).value)
    assert parse_price(field).fault is None


@pytest.mark.parametrize("field", ["-5", "-$5.00", "$-5.00", -2, -0.01, "$5 - -$3"])
def test_negative(field: object) -> None:
    assert math.isnan(parse_price(field).value)
    assert parse_price(field).fault is PriceFault.NEGATIVE


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
    assert math.isnan(parse_price(field).value)
    assert parse_price(field).fault is PriceFault.JUNK


@given(st.integers(0, 9_999_999))
def test_every_cent_survives_formatting(cents: int) -> None:
    assert parse_price(f"${cents / 100:,.2f}").value == pytest.approx(cents / 100)


@given(st.text(max_size=80))
def test_any_text_gives_a_price_or_none(text: str) -> None:
    price = parse_price(text)
    assert math.isnan(price.value) or price.value >= 0
