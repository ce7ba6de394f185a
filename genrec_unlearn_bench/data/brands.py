"""Brand names: one spelling for each brand, and no brand where the field holds junk.

A brand is what a deletion request names, so two spellings of one brand must not end up on both sides of a split. Names
are compared without case, width and spacing; the spelling shown is the most frequent one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.data.markup import looks_like_code, plain

__all__ = ["BrandColumn", "brand_key", "clean_brand", "normalise_brands"]

_NO_BRAND = frozenset(
    {
        "brand",
        "by",
        "does not apply",
        "generic",
        "n.a.",
        "n/a",
        "na",
        "nan",
        "no brand",
        "none",
        "not applicable",
        "not available",
        "not specified",
        "null",
        "store",
        "tbd",
        "unbranded",
        "unknown",
        "various",
    }
)
"""Values that mean "no brand", by comparison key. "Generic" is one: nobody can ask for it to be forgotten."""

_LONGEST = 120
"""Characters; longer values are sentences that slipped into the field."""

_LABEL = re.compile(r"^\s*brand\s*:\s*", re.IGNORECASE)
_VISIT = re.compile(r"^\s*visit\s+the\s+(.+?)\s+store\s*$", re.IGNORECASE)
# "by Sony" and "By:\nSony" are page furniture, "By Terry" is a brand.
_LEADING_BY = re.compile(r"^\s*(?:by\s|(?i:by)\s*(?::|\n))\s*")
_TRAILING_BY = re.compile(r"\s+by\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class BrandColumn:
    """The brands of N items.

    Attributes:
        names: Canonical names, ``""`` where there is no brand.
        raw: The source's spelling without markup and line breaks; ``""`` where the field was empty, a style sheet or
            a script.
        junk: Number of values that were not empty and still name no brand.
    """

    names: tuple[str, ...]
    raw: tuple[str, ...]
    junk: int


def clean_brand(value: str) -> str:
    """One brand name without markup, "by", "Visit the … Store" and quotes; ``""`` where the value names no brand."""
    if looks_like_code(value):
        return ""
    text = _LABEL.sub("", _LEADING_BY.sub("", value, count=1), count=1)
    text = plain(text)
    store = _VISIT.match(text)
    text = store[1] if store else text
    text = _TRAILING_BY.sub("", _LEADING_BY.sub("", text, count=1))
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    if len(text) > _LONGEST or not any(character.isalnum() for character in text):
        return ""
    return "" if brand_key(text) in _NO_BRAND else text


def brand_key(name: str) -> str:
    """What two spellings of one brand have in common: compatibility form, case folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def normalise_brands(values: Sequence[str]) -> BrandColumn:
    """The brand column of N items. Ties between spellings go to the one that comes first in the source."""
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
