"""Clean the fields of an item as shops and scrapers write them: markup, brand names, prices.

- Text: titles hold the start of a ``<span …`` tag and nothing else, descriptions hold markup that was escaped twice,
  and price and brand fields hold style sheets. Every step is linear in the text.
- Brands: a brand is what a deletion request names, so two spellings of one brand must not end up on both sides of a
  split. Names are compared without case, width and spacing; the most frequent spelling is shown.
- Prices: a range is read as its lower end, a price at which the item was really offered; with the midpoint, one
  expensive variant ("$9.99 - $499.00") would carry a cheap item into the top band. Currency signs are not converted; a
  source is taken to use one currency.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

# Only entities with their semicolon: "AT&T" and "Black&notable" are not markup.
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_CUT_TAG = re.compile(r"<[A-Za-z][\w-]*\s+[\w-]+\s*=[^<>]*$")
_CUT_END = re.compile(r"[\"']\s*/?>\s*$")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x9f]")
_CODE = re.compile(
    r"\{[^{}:;]*[:;][^{}]*\}|\bfunction\s*\(|^\s*[.#][\w-]+(\s*[.#>][\w-]+)*\s*\{|\bvar\s+\w+\s*=|\ba-section\b"
)
_BLOCKS = [
    re.compile(rf"{opening}.*?(?:{closing}|\Z)", re.DOTALL | re.IGNORECASE)
    for opening, closing in (("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>"))
]
_MAX_ESCAPES = 3


def plain(text: str) -> str:
    """Remove markup, decode entities, collapse white space; ``""`` where nothing readable is left."""
    if not text.isascii():
        # JSON may escape half a surrogate pair, which no file could store afterwards.
        text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    for _ in range(_MAX_ESCAPES if "&" in text else 0):
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    if "<" in text:
        for block in _BLOCKS:
            text = block.sub(" ", text)
        text = _CUT_TAG.sub(" ", _TAG.sub(" ", text))
    if text.rstrip().endswith(">"):
        text = _CUT_END.sub("", text)
    return " ".join(_CONTROL.sub(" ", text).split())


def looks_like_code(text: str) -> bool:
    """Whether a field that should hold a name holds a style sheet or a script."""
    return _CODE.search(text) is not None


_NO_BRAND = frozenset((
    "brand", "by", "does not apply", "generic", "n.a.", "n/a", "na", "nan", "no brand", "none", "not applicable",
    "not available", "not specified", "null", "store", "tbd", "unbranded", "unknown", "various",
))  # fmt: skip
"""Values that mean "no brand", by comparison key. "Generic" is one: nobody can ask for it to be forgotten."""

_LONGEST_BRAND = 120
"""Characters; longer values are sentences that slipped into the field."""

_LABEL = re.compile(r"^\s*brand\s*:\s*", re.IGNORECASE)
_VISIT = re.compile(r"^\s*visit\s+the\s+(.+?)\s+store\s*$", re.IGNORECASE)
# "by Sony" and "By:\nSony" are page furniture, "By Terry" is a brand.
_LEADING_BY = re.compile(r"^\s*(?:by\s|(?i:by)\s*(?::|\n))\s*")
_TRAILING_BY = re.compile(r"\s+by\s*$", re.IGNORECASE)


class BrandColumn(NamedTuple):
    """The brands of N items."""

    names: tuple[str, ...]
    """Canonical names, ``""`` where there is no brand."""
    raw: tuple[str, ...]
    """The source's spelling without markup; ``""`` where the field was empty, a style sheet or a script."""
    junk: int
    """Number of values that were not empty and still name no brand."""


def clean_brand(value: str) -> str:
    """Strip markup, "by", "Visit the … Store" and quotes from a brand name; ``""`` where the value names no brand."""
    if looks_like_code(value):
        return ""
    text = _LABEL.sub("", _LEADING_BY.sub("", value, count=1), count=1)
    text = plain(text)
    store = _VISIT.match(text)
    text = store[1] if store else text
    text = _TRAILING_BY.sub("", _LEADING_BY.sub("", text, count=1))
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    junk = len(text) > _LONGEST_BRAND or not any(map(str.isalnum, text)) or brand_key(text) in _NO_BRAND
    return "" if junk else text


def brand_key(name: str) -> str:
    """Comparison key of a brand's spellings: compatibility form, case folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def normalise_brands(values: Sequence[str]) -> BrandColumn:
    """Normalise the brands of N items. Ties between spellings go to the one that comes first in the source."""
    # Catalogues have far fewer brands than items; each value is looked at once, and equal names are one string.
    counts = Counter(values)
    cleaned = {value: clean_brand(value) for value in counts}
    keys = {value: brand_key(name) for value, name in cleaned.items() if name}
    spellings: dict[str, Counter[str]] = {}
    for value, key in keys.items():
        spellings.setdefault(key, Counter())[cleaned[value]] += counts[value]
    # Counter.most_common keeps insertion order among equals.
    canonical = {key: found.most_common(1)[0][0] for key, found in spellings.items()}
    names = {value: canonical[keys[value]] if value in keys else "" for value in counts}
    raw = {value: "" if looks_like_code(value) else plain(value) for value in counts}
    junk = sum(count for value, count in counts.items() if value.strip() and not cleaned[value])
    return BrandColumn(tuple(names[value] for value in values), tuple(raw[value] for value in values), junk)


NEGATIVE_PRICE = "negative price (price left out)"
JUNK_PRICE = "price is not a number (price left out)"

_SIGN = r"(?:US\$|CDN\$|[$£€¥₹]|USD|EUR|GBP|Rs\.?)?"
_NUMBER = (
    rf"(?P<minus{{0}}>-)?\s*{_SIGN}\s*(?P<minus_inside{{0}}>-)?(?P<number{{0}}>[0-9][0-9.,]*|\.[0-9]+)\s*(?:{_SIGN})"
)
_PRICE = re.compile(
    rf"^(?:from\s+)?{_NUMBER.format('')}(?:\s*(?:-|–|—|to)\s*{_NUMBER.format('_high')})?$", re.IGNORECASE
)
_EMPTY = frozenset({"", "-", "–", "—", "n/a", "na", "none", "nan", "null", "unknown"})
_FREE = frozenset({"free", "free to play"})
_LONGEST_PRICE = 64
_LARGEST = 1e12


def parse_price(value: object) -> float:
    """Parse a price: a number, ``"$1,299.00"``, ``"$10.00 - $20.00"`` (its lower end), ``"free"`` (0).

    At least 0; NaN for an empty field and for NaN. Raises ValueError with the manifest's reason for leaving it out.
    """
    value = float(value) if isinstance(value, Decimal) else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) >= _LARGEST:
            raise ValueError(JUNK_PRICE)
        return _not_negative(float(value))
    text = value if isinstance(value, str) else ""
    text = " ".join(text.split()) if len(text) <= _LONGEST_PRICE else text.strip()
    if value is None or value == [] or (isinstance(value, str) and text.lower() in _EMPTY):
        return math.nan
    if text.lower() in _FREE:
        return 0.0
    match = _PRICE.match(text) if len(text) <= _LONGEST_PRICE else None
    if match is None:
        raise ValueError(JUNK_PRICE)
    prices: list[float] = []
    for end in ("", "_high"):
        if match[f"number{end}"] is not None:
            number = _number(match[f"number{end}"], euro="€" in text or "EUR" in text.upper())
            if number is None:
                raise ValueError(JUNK_PRICE)
            prices.append(-number if match[f"minus{end}"] or match[f"minus_inside{end}"] else number)
    return _not_negative(min(prices))


def _number(digits: str, *, euro: bool) -> float | None:
    """Digits with thousands separators: in euros also ``1.299``. A comma before two last digits is a decimal comma."""
    if re.search(",[0-9]{2}$", digits) or (euro and re.fullmatch(r"[1-9][0-9]{0,2}(\.[0-9]{3})+", digits)):
        digits = digits.translate(str.maketrans(",.", ".,"))
    match = re.fullmatch(r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.[0-9]*)?", digits)
    return float(digits.replace(",", "")) if match else None


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError(NEGATIVE_PRICE)
    return abs(value)
