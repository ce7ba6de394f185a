"""Prices out of what shops write into a price field.

A range is read as its lower end: that is a price at which the item was really offered, whereas a midpoint is a price
nobody asked, and one expensive variant ("$9.99 - $499.00") would carry a cheap item into the top band. Currency signs
are not converted; a source is taken to use one currency.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Price", "PriceFault", "parse_price"]


class PriceFault(StrEnum):
    """Why a price field that is not empty gave no price; the texts are the manifest's drop reasons."""

    NEGATIVE = "negative price (price left out)"
    JUNK = "price is not a number (price left out)"


@dataclass(frozen=True)
class Price:
    """A parsed price field.

    Attributes:
        value: The price, at least 0, or NaN.
        fault: Why there is none; None for a price and for an empty field.
    """

    value: float
    fault: PriceFault | None = None


_SIGN = r"(?:US\$|CDN\$|[$£€¥₹]|USD|EUR|GBP|Rs\.?)?"
_NUMBER = (
    rf"(?P<minus{{0}}>-)?\s*{_SIGN}\s*(?P<minus_inside{{0}}>-)?(?P<number{{0}}>[0-9][0-9.,]*|\.[0-9]+)\s*(?:{_SIGN})"
)
_PRICE = re.compile(
    rf"^(?:from\s+)?{_NUMBER.format('')}(?:\s*(?:-|–|—|to)\s*{_NUMBER.format('_high')})?$", re.IGNORECASE
)
_EMPTY = frozenset({"", "-", "–", "—", "n/a", "na", "none", "nan", "null", "unknown"})
_FREE = frozenset({"free", "free to play"})
_LONGEST = 64
_LARGEST = 1e12


def parse_price(value: object) -> Price:
    """The price in ``value``: a number, ``"$1,299.00"``, ``"$10.00 - $20.00"`` (its lower end), ``"free"`` (0)."""
    if value is None:
        return Price(math.nan)
    if isinstance(value, bool):
        return Price(math.nan, PriceFault.JUNK)
    if isinstance(value, int | float):
        return _checked(float(value)) if abs(value) < _LARGEST else _not_a_number(value)
    if not isinstance(value, str):
        return Price(math.nan, PriceFault.JUNK)
    text = " ".join(value.split()) if len(value) <= _LONGEST else value.strip()
    if text.lower() in _EMPTY:
        return Price(math.nan)
    if text.lower() in _FREE:
        return Price(0.0)
    match = _PRICE.match(text) if len(text) <= _LONGEST else None
    if match is None:
        return Price(math.nan, PriceFault.JUNK)
    prices = []
    for end in ("", "_high"):
        if match[f"number{end}"] is None:
            continue
        number = _number(match[f"number{end}"])
        if number is None:
            return Price(math.nan, PriceFault.JUNK)
        prices.append(-number if match[f"minus{end}"] or match[f"minus_inside{end}"] else number)
    return _checked(min(prices))


def _number(digits: str) -> float | None:
    """Digits with thousands separators; a comma followed by exactly two last digits is a decimal comma."""
    comma, dot = digits.rfind(","), digits.rfind(".")
    if comma > dot and len(digits) - comma - 1 == 2:
        whole, fraction = digits[:comma], digits[comma + 1 :]
        groups = whole.split(".")
    else:
        whole, _, fraction = digits.rpartition(".") if dot >= 0 else (digits, "", "")
        groups = whole.split(",")
    grouped = len(groups) > 1
    if grouped and (any(len(group) != 3 for group in groups[1:]) or not 1 <= len(groups[0]) <= 3):
        return None
    joined = "".join(groups) + "." + fraction
    return float(joined) if re.fullmatch(r"[0-9]*\.[0-9]*", joined) and joined != "." else None


def _checked(value: float) -> Price:
    if not math.isfinite(value):
        return _not_a_number(value)
    return Price(math.nan, PriceFault.NEGATIVE) if value < 0 else Price(abs(value))


def _not_a_number(value: float) -> Price:
    # NaN is how tables write "no price"; an infinite one is a fault.
    return Price(math.nan) if value != value else Price(math.nan, PriceFault.JUNK)
