"""Data as read: an item table, built row by row, and a log of what users did, before any filtering or splitting.

Three kinds of log exist in public data, and they do not turn into one another: dated interactions, ordered sequences
without dates, and next-item examples that are already cut and split.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.fields import looks_like_code, normalise_brands, parse_price, plain
from genrec_unlearn_bench.data.items import ItemTable


@dataclass(frozen=True, eq=False)
class Interactions:
    """E interactions, dated or in sequences: user numbers and rows of the item table."""

    users: IntArray
    items: IntArray
    times: IntArray | None
    """Timestamps in the source's own unit, of which only the order is used (ties stay in source order); None for
    sequences, where each user's rows are in order."""

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, eq=False)
class GivenPart:
    """M ready-made examples of one part; users are numbered across the parts, items are rows of the item table.

    Attributes:
        histories: [sum of lengths] history after history, oldest item first.
        lengths: [M] length of each history, at least 1.
    """

    users: IntArray
    targets: IntArray
    histories: IntArray
    lengths: IntArray

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Examples that come with their split, as MiniOneRec publishes them."""

    train: GivenPart
    valid: GivenPart
    test: GivenPart

    def __len__(self) -> int:
        return len(self.train) + len(self.valid) + len(self.test)


@dataclass(frozen=True, eq=False)
class RawData:
    """One source as read."""

    items: ItemTable
    """The catalogue; rows that no log entry refers to are allowed and kept."""
    log: Interactions | GivenRows
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of lines (or of values, where the reason says so) the reader left out."""
    notes: tuple[str, ...] = ()


_LONGEST_LITERAL = 1_000_000
"""Characters. A Python literal beyond this is not read: the parser's memory is a large multiple of its input."""
_LONGEST_FIELD = 100_000
"""Characters kept of one text field."""


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

    def add(
        self,
        item_id: str,
        *,
        title: object = None,
        description: object = None,
        brand: object = None,
        price: object = None,
        categories: object = None,
        text: object = None,
        attributes: Mapping[str, object] | None = None,
    ) -> None:
        """Append an item whose id is not there yet; all items have the same attributes.

        Fields may be strings, numbers, nested lists of them, or None.
        """
        self.row[item_id] = len(self.row)
        heading = _joined(title)
        if looks_like_code(heading):
            self.dropped["title is a script or a style sheet (title left out)"] += 1
            heading = ""
        self._titles.append(plain(heading))
        self._descriptions.append(plain(_joined(literal(description))))
        self._brands.append(_joined(brand, limit=2_000))
        if isinstance(brand, list | tuple) and len(brand) > 1:
            self.dropped["brand is a list of several (joined to one name)"] += 1
        if isinstance(price, float) and math.isnan(price):
            self.dropped["price is NaN (no price)"] += 1
        self._texts.append(plain(_joined(text)))
        for name, values in (attributes or {}).items():
            self._attributes.setdefault(name, []).append(self._values(values))
        self._categories.append(self._values(categories))
        try:
            self._prices.append(parse_price(price))
        except ValueError as fault:
            self.dropped[str(fault)] += 1
            self._prices.append(math.nan)

    def _values(self, value: object) -> tuple[str, ...]:
        """Different readable names in the value, in order."""
        found = tuple(dict.fromkeys(name for part in strings(value) if (name := plain(part[:_LONGEST_FIELD]))))
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
        parsed = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return parsed if isinstance(parsed, list) else value


def strings(value: object) -> Iterator[str]:
    """All strings and numbers in a value or in nested lists of them, in order; anything else is passed over."""
    # An explicit stack: metadata nests lists to any depth.
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list | tuple):
            stack.extend(reversed(part))
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield str(part)


def _joined(value: object, limit: int = _LONGEST_FIELD) -> str:
    return value[:limit] if isinstance(value, str) else " ".join(strings(value))[:limit]
