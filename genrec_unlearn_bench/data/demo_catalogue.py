"""The items of the demo: invented products with a brand, a department, a shelf, a price and readable text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.brands import normalise_brands
from genrec_unlearn_bench.data.demo_words import BRANDS, CATEGORIES, VARIANTS, Category
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.items import ItemTable

__all__ = ["Catalogue", "brand_weights", "build_catalogue", "pick"]

ITEMS = 400
_FEWEST = 4
_JUNK_PRICES = ("call for price", ".a-box-inner{padding:0}", "$$", "see options")
_BRAND_IN_TITLE, _BRAND_IN_DESCRIPTION = 0.85, 0.5
_SHOUTED, _NO_BRAND, _NO_PRICE = 0.06, 0.02, 0.03
_TIERS = (7, 10, 15)
"""Price level of a brand, in tenths."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The items, and what the users of the demo know about them.

    Attributes:
        brands: [N] row in ``BRANDS``, -1 for items without a brand.
        categories, shelves: [N] department; shelf, numbered across departments.
        tiers: [N] 0 to 2, the item's price within its department: low, middle, high third.
        popularity: [N] weight, at least 1.
        junk_prices: How many prices were junk and left out.
    """

    items: ItemTable
    brands: IntArray
    categories: IntArray
    shelves: IntArray
    tiers: IntArray
    popularity: IntArray
    junk_prices: int


def pick(weights: IntArray, generator: np.random.Generator) -> int:
    """A position, drawn with probability proportional to its (integer) weight."""
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, int(generator.random() * int(cumulative[-1])), side="right"))


def _one(options: Sequence[T], generator: np.random.Generator) -> T:
    return options[int(generator.random() * len(options))]


def build_catalogue(generator: np.random.Generator) -> Catalogue:
    """``ITEMS`` items in random order, their text included."""
    brands, categories = _ranges()
    order = np.argsort(generator.random(ITEMS), kind="stable")
    brands, categories = brands[order], categories[order]
    first_shelf = np.cumsum([0, *(len(category.subcategories) for category in CATEGORIES)])
    shelves = np.empty(ITEMS, dtype=np.int64)
    cents = np.empty(ITEMS, dtype=np.int64)
    rows: list[tuple[str, str, str, tuple[str, ...]]] = []
    for row in range(ITEMS):
        category = CATEGORIES[categories[row]]
        shelf = int(generator.random() * len(category.subcategories))
        shelves[row] = first_shelf[categories[row]] + shelf
        tier = _TIERS[(brands[row] * 7) % 3]
        cents[row] = category.base * tier * (55 + int(generator.random() * 100)) // 1000
        if generator.random() < _NO_BRAND:
            brands[row] = -1
        name = BRANDS[brands[row]] if brands[row] >= 0 else ""
        title, description = _text(name, category, shelf, generator)
        spelled = name.upper() if generator.random() < _SHOUTED else name
        rows.append((title, description, spelled, (category.name, category.subcategories[shelf].name)))
    prices, junk = _prices(cents, generator)
    titles, descriptions, spellings, paths = zip(*rows, strict=True)
    items = ItemTable(
        ids=tuple(f"D{row:04d}" for row in range(ITEMS)),
        titles=titles,
        descriptions=descriptions,
        brands=normalise_brands(spellings).names,
        brands_raw=spellings,
        prices=prices,
        categories=paths,
        texts=("",) * ITEMS,
    )
    popularity = 2 + np.floor(generator.random(ITEMS) * 7).astype(np.int64)
    return Catalogue(items, brands, categories, shelves, _thirds(cents, categories), popularity, junk)


def brand_weights() -> IntArray:
    """[brands] how large each brand is: its share of the catalogue and of people's favour."""
    return 1 + 90 // (np.arange(len(BRANDS), dtype=np.int64) + 9)


def _ranges() -> tuple[IntArray, IntArray]:
    """Brand and department of every item: brand sizes fall with rank, large brands range over three departments."""
    weights = brand_weights()
    spare = ITEMS - _FEWEST * len(BRANDS)
    marks = np.cumsum(weights) * spare // int(weights.sum())
    sizes = _FEWEST + np.diff(marks, prepend=0)
    brands = np.repeat(np.arange(len(BRANDS), dtype=np.int64), sizes)
    categories = np.empty(ITEMS, dtype=np.int64)
    position = 0
    for brand, size in enumerate(sizes):
        home = brand % len(CATEGORIES)
        lines = (home, *CATEGORIES[home].next)[: 3 if brand < 10 else 2 if brand < 26 else 1]
        for offset in range(int(size)):
            categories[position] = lines[offset % len(lines)]
            position += 1
    return brands, categories


def _text(brand: str, category: Category, shelf: int, generator: np.random.Generator) -> tuple[str, str]:
    subcategory = category.subcategories[shelf]
    product = _one(subcategory.products, generator)
    material, variant = _one(category.materials, generator), _one(VARIANTS, generator)
    in_title = bool(brand) and generator.random() < _BRAND_IN_TITLE
    in_description = bool(brand) and generator.random() < _BRAND_IN_DESCRIPTION
    title = f"{brand} {material} {product}, {variant}" if in_title else f"{material} {product}, {variant}"
    maker = f"{product} by {brand}" if in_description else product
    return title, f"{maker}. {subcategory.praise}."


def _prices(cents: IntArray, generator: np.random.Generator) -> tuple[NDArray[np.float64], int]:
    """Prices in dollars, ending in .99; NaN where there is none or where it is junk, and how many were junk."""
    prices = (cents // 100 + 0.99).astype(np.float64)
    keys = np.argsort(generator.random(len(cents)), kind="stable")
    absent = int(_NO_PRICE * len(cents))
    prices[keys[:absent]] = np.nan
    junk = keys[absent : absent + len(_JUNK_PRICES)]
    prices[junk] = np.nan
    return prices, len(junk)


def _thirds(cents: IntArray, categories: IntArray) -> IntArray:
    tiers = np.empty(len(cents), dtype=np.int64)
    for category in np.unique(categories):
        rows = np.flatnonzero(categories == category)
        rank = np.argsort(np.argsort(cents[rows], kind="stable"), kind="stable")
        tiers[rows] = rank * 3 // len(rows)
    return tiers
