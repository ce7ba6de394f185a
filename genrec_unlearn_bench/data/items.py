"""The item table of a dataset: metadata by column, item ids being row numbers everywhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

TEXT_FIELDS = ("title", "brand", "categories", "description", "text")
"""The fields that make up an item's text, in order. The price never enters it."""


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
        """The values of each item in a text field or an attribute, in the source's order. Raises KeyError."""
        if field == "categories":
            return self.categories
        texts = {"brand": self.brands, "title": self.titles, "description": self.descriptions, "text": self.texts}
        return tuple((text,) if text else () for text in texts[field]) if field in texts else self.attributes[field]

    def numbers(self, field: str) -> NDArray[np.float64]:
        """[N] the price, or another field's number (of several values the first); NaN for none. Raises KeyError."""
        if field == "price":
            return self.prices
        found = (_number(values[0]) if values else math.nan for values in self.values(field))
        return np.fromiter(found, dtype=np.float64, count=len(self))

    def take(self, rows: NDArray[np.int64]) -> ItemTable:
        """The chosen rows, in the order given."""
        columns = {column.name: getattr(self, column.name) for column in fields(self)}
        chosen: dict[str, Any] = {
            name: tuple(values[row] for row in rows) for name, values in columns.items() if isinstance(values, tuple)
        }
        further = {name: tuple(own[row] for row in rows) for name, own in self.attributes.items()}
        return ItemTable(**chosen, prices=self.prices[rows], attributes=further)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
