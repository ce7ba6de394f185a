"""The item table of a dataset: metadata by column, item ids being row numbers everywhere else; built row by row."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.fields import looks_like_code, normalise_brands, parse_price, plain
from genrec_unlearn_bench.errors import UnknownName

TEXT_FIELDS = ("title", "brand", "categories", "description", "text")
"""The fields that make up an item's text, in order. The price never enters it."""


_LONGEST_LITERAL = 1_000_000
"""Characters. A Python literal beyond this is not read: the parser's memory is a large multiple of its input."""
_LONGEST_FIELD = 100_000
"""Characters kept of one text field."""
_NUMPY = re.compile(r"""\[\s*(?:'[^']*'|"[^"]*")(?:\s+(?:'[^']*'|"[^"]*"))+\s*\]""")
"""An array as NumPy prints it: without commas, Python takes its strings for one."""
_READABLE = (str, int, float, Decimal, date, NoneType)


@dataclass(frozen=True, eq=False)
class ItemTable:
    """N items, one row each. A missing string is ``""``, a missing price NaN, missing categories ``()``.

    Attributes:
        ids: The dataset's own identifiers, unique.
        brands: Normalised brand names (see ``data.fields``).
        brands_raw: Brand names as the source spells them.
        prices: [N] float64, in the source's currency, NaN where unknown.
        attributes: Further fields by name, of each item no, one or many values (genres, publishers).
    """

    ids: tuple[str, ...]
    titles: tuple[str, ...]
    descriptions: tuple[str, ...]
    brands: tuple[str, ...]
    brands_raw: tuple[str, ...]
    prices: NDArray[np.float64]
    categories: tuple[tuple[str, ...], ...]
    texts: tuple[str, ...]
    attributes: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = [getattr(self, column.name) for column in fields(self) if column.name != "attributes"]
        sizes = {len(column) for column in (*columns, *self.attributes.values())}
        if sizes != {len(self.ids)}:
            raise ValueError(f"columns of different length: {sorted(sizes)}")

    def __len__(self) -> int:
        return len(self.ids)

    def plain_text(self, fields: Iterable[str] = TEXT_FIELDS) -> list[str]:
        """Each item's text: its non-empty fields joined by ``". "``; the id where all are empty."""
        columns = {
            "title": self.titles,
            "brand": self.brands_raw,
            "categories": tuple(", ".join(path) for path in self.categories),
            "description": self.descriptions,
            "text": self.texts,
            **{name: tuple(map(", ".join, values)) for name, values in self.attributes.items()},
        }
        chosen = [columns[name] for name in fields]
        return [
            ". ".join(part for part in parts if part) or self.ids[row]
            for row, parts in enumerate(zip(*chosen, strict=True))
        ]

    def values(self, field: str) -> tuple[tuple[str, ...], ...]:
        """The values of each item in a text field or an attribute, in the source's order. Raises UnknownName."""
        if field == "categories":
            return self.categories
        texts = {"brand": self.brands, "title": self.titles, "description": self.descriptions, "text": self.texts}
        if field not in texts and field not in self.attributes:
            raise UnknownName("field of items", field, (*texts, "categories", *self.attributes))
        return tuple((text,) if text else () for text in texts[field]) if field in texts else self.attributes[field]

    def numbers(self, field: str) -> NDArray[np.float64]:
        """[N] the price, or another field's number (of several values the first); NaN for none. Raises UnknownName."""
        if field == "price":
            return self.prices
        import pandas as pd

        first = pd.Series([values[0] if values else None for values in self.values(field)], dtype=object)
        return pd.to_numeric(first, errors="coerce").to_numpy(np.float64)

    def take(self, rows: NDArray[np.int64]) -> ItemTable:
        """The chosen rows, in the order given."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        chosen: dict[str, Any] = {
            name: tuple(values[row] for row in rows) for name, values in columns.items() if isinstance(values, tuple)
        }
        further = {name: tuple(own[row] for row in rows) for name, own in self.attributes.items()}
        return ItemTable(**chosen, prices=self.prices[rows], attributes=further)


class ItemColumns:
    """Collects items row by row, each with its own id; ``dropped`` is shared with the reader."""

    def __init__(self, dropped: Counter[str]) -> None:
        self.row: dict[str, int] = {}
        self.dropped = dropped
        self._titles, self._descriptions, self._texts, self._brands = (list[str]() for _ in range(4))
        self._prices, self._categories = list[float](), list[tuple[str, ...]]()
        self._attributes: dict[str, list[tuple[str, ...]]] = {}
        # Equal values are kept once: a catalogue has few different lists of categories.
        self._seen: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add(self, item_id: str, attributes: Mapping[str, object] | None = None, **fields: object) -> None:
        """Append an item whose id is not there yet; all items have the same attributes.

        Fields (title, description, brand, price, categories, text): strings, numbers, nested lists of them, or None.
        """
        self.row[item_id] = len(self.row)
        brand, price, heading = fields.get("brand"), fields.get("price"), _joined(fields.get("title"))
        if looks_like_code(heading):
            self.dropped["title is a script or a style sheet (title left out)"] += 1
            heading = ""
        self._titles.append(plain(heading))
        for name, value in {**fields, **(attributes or {})}.items():
            if name != "price" and not all(isinstance(part, _READABLE) for part in _leaves(literal(value))):
                self.dropped[f"{name} holds values of a kind that is not read"] += 1
        self._descriptions.append(plain(_joined(literal(fields.get("description")))))
        self._brands.append(_joined(brand, limit=2_000))
        if isinstance(brand, list | tuple) and len(brand) > 1:
            self.dropped["brand is a list of several (joined to one name)"] += 1
        if isinstance(price, float) and math.isnan(price):
            self.dropped["price is NaN (no price)"] += 1
        self._texts.append(plain(_joined(fields.get("text"))))
        for name, values in (attributes or {}).items():
            self._attributes.setdefault(name, []).append(self._values(values))
        self._categories.append(self._values(fields.get("categories")))
        try:
            self._prices.append(parse_price(price))
        except ValueError as fault:
            self.dropped[str(fault)] += 1
            self._prices.append(math.nan)

    def _values(self, value: object) -> tuple[str, ...]:
        """Different readable names in the value, in order."""
        found = tuple(dict.fromkeys(name for part in strings(literal(value)) if (name := plain(part[:_LONGEST_FIELD]))))
        return self._seen.setdefault(found, found)

    def finish(self) -> ItemTable:
        """The table, brands normalised over all items."""
        brands = normalise_brands(self._brands)
        if brands.junk:
            self.dropped["brand field names no brand (brand left out)"] += brands.junk
        return ItemTable(
            ids=tuple(self.row),
            titles=tuple(self._titles),
            descriptions=tuple(self._descriptions),
            brands=brands.names,
            brands_raw=brands.raw,
            prices=np.asarray(self._prices, dtype=np.float64),
            categories=tuple(self._categories),
            texts=tuple(self._texts),
            attributes={name: tuple(rows) for name, rows in sorted(self._attributes.items()) if any(rows)},
        )


def literal(value: object) -> object:
    """A Python list literal in a string as that list, anything else unchanged. Nothing is evaluated."""
    if not isinstance(value, str) or not value.startswith("[") or len(value) > _LONGEST_LITERAL:
        return value
    try:
        parsed = None if _NUMPY.fullmatch(value) else ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return parsed if isinstance(parsed, list) else value


def strings(value: object) -> Iterator[str]:
    """All strings, numbers, truths and dates in a value or in nested lists of them, in order; NaN is none of them."""
    for part in _leaves(value):
        if isinstance(part, str):
            yield part
        elif isinstance(part, int | float | Decimal) and part == part:
            yield str(part).lower()
        elif isinstance(part, date):
            yield part.isoformat()


def _leaves(value: object) -> Iterator[object]:
    # An explicit stack: metadata nests lists to any depth.
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, list | tuple):
            stack.extend(reversed(part))
        else:
            yield part


def _joined(value: object, limit: int = _LONGEST_FIELD) -> str:
    return value[:limit] if isinstance(value, str) else " ".join(strings(value))[:limit]
