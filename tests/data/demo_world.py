"""The world behind the shipped ``demo`` dataset: how its items, users and interactions are made.

It imitates what matters for unlearning:

- 40 brands of skewed size; users buy a few favourites far more often than chance, so forgetting a brand is a problem.
- Departments drift as a Markov chain along the lines on which brands range: a signal that popularity does not hold.
- Every item has three companions, one of its own brand and two of the department or the next, and most purchases are
  companions of the last one: an item-to-item signal that a small network learns in seconds.
- Otherwise, within a department, a user chooses by favourite brand, by the shelf of the last purchase, by price taste
  and by popularity. Prices depend on department, brand and chance, so the price bands cut through both.
- Most titles and about half of the descriptions carry the brand's name, as real catalogues do.
- A few items have no brand, no price, or a junk price that is left out and counted.

Weights are integers and the only random source is ``Generator.random`` (raw bits scaled to [0, 1)), so the data are the
same on every machine and for every version of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.config import plain_yaml
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.fields import JUNK_PRICE, normalise_brands
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.splits import Interactions, RawData
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["BRANDS", "CATEGORIES", "generate"]

ITEMS = 400
_FEWEST = 4
_JUNK_PRICES = ("call for price", ".a-box-inner{padding:0}", "$$", "see options")
_BRAND_IN_TITLE, _BRAND_IN_DESCRIPTION = 0.85, 0.5
_SHOUTED, _NO_BRAND, _NO_PRICE = 0.06, 0.02, 0.03
_TIERS = (7, 10, 15)
"""Price level of a brand, in tenths."""

USERS = 1500
_SHORTEST, _LONGEST = 6, 12
_FAVOURITES = 4
_DAY = 86_400
_OPENING = 1_577_836_800  # 2020-01-01 00:00 UTC
_JOINING_DAYS = 900
_LONGEST_GAP = 25 * _DAY

_STAY, _DRIFT, _ANYWHERE = 10, (5, 3), 2
"""Weights of the next department: the same, its two neighbours, any."""
_LOYALTY = 40
_SAME_SHELF = 4
_COMPANION = 0.75
"""Chance that a purchase goes with the last one."""
_CLOSENESS = np.asarray([5, 3, 2], dtype=np.int64)
"""Weights of an item's three companions: that of its own brand comes first."""
_TASTE = (6, 2, 1)
"""Weight by the distance between an item's price tier and the user's taste."""

T = TypeVar("T")


class Subcategory(NamedTuple):
    """A shelf: its name, what one says of the things on it, and the things."""

    name: str
    praise: str
    products: Sequence[str]


class Category(NamedTuple):
    """A department. ``base`` is a typical price in cents; ``next`` are the departments people drift to."""

    name: str
    base: int
    next: Sequence[int]
    materials: Sequence[str]
    shelves: Sequence[Subcategory]


_WORDS = plain_yaml(Path(__file__).with_name("demo_words.yaml").read_text(encoding="utf-8"))
BRANDS: Sequence[str] = _WORDS["brands"]
CATEGORIES = [
    Category(**{**department, "shelves": [Subcategory(**shelf) for shelf in department["shelves"]]})
    for department in _WORDS["departments"]
]


@dataclass(frozen=True, eq=False)
class _Catalogue:
    """The items, and what the users of the demo know about them; arrays are [N]."""

    items: ItemTable
    brands: IntArray
    """Row in ``BRANDS``, -1 for items without a brand."""
    categories: IntArray
    shelves: IntArray
    """Numbered across departments."""
    tiers: IntArray
    """0 to 2, the item's price within its department: low, middle, high third."""
    popularity: IntArray
    junk_prices: int
    """How many prices were junk and left out."""


def generate(seed: int = 0) -> RawData:
    """One world. The shipped dataset is seed 0.

    Returns:
        400 items and 13,500 or so dated interactions of 1,500 users; no user has an item twice.
    """
    catalogue = _build_catalogue(numpy_generator(seed, "demo", "items"))
    companions = _companions(catalogue, numpy_generator(seed, "demo", "companions"))
    users, items, times = list[int](), list[int](), list[int]()
    for user in range(USERS):
        generator = numpy_generator(seed, "demo", "user", user)
        bought = _shop(catalogue, companions, generator)
        users += [user] * len(bought)
        items += bought
        times += _dates(len(bought), generator)
    order = np.argsort(np.asarray(times), kind="stable")
    log = Interactions(*(np.asarray(column, dtype=np.int64)[order] for column in (users, items, times)))
    note = f"synthetic: generated with seed {seed}; no item, brand or user is real"
    return RawData(catalogue.items, log, {JUNK_PRICE: catalogue.junk_prices}, (note,))


def _preferences(generator: np.random.Generator) -> tuple[NDArray[np.bool_], int]:
    """A user's favourites among the brands, and the price taste from 0 (cheap) to 2 (dear)."""
    sizes = _brand_weights()
    favourites = np.zeros(len(BRANDS), dtype=np.bool_)
    for _ in range(_FAVOURITES):
        favourites[_pick(np.where(favourites, 0, sizes), generator)] = True
    return favourites, _pick(np.asarray([3, 4, 3]), generator)


def _companions(catalogue: _Catalogue, generator: np.random.Generator) -> IntArray:
    """[N, 3] what goes with each item: one item of its brand, two of its department or the first one next to it."""
    out = np.empty((len(catalogue.brands), 3), dtype=np.int64)
    for item, (brand, category) in enumerate(zip(catalogue.brands, catalogue.categories, strict=True)):
        near = np.isin(catalogue.categories, (category, CATEGORIES[category].next[0]))
        family = (catalogue.brands == brand) if brand >= 0 else near.copy()
        family[item] = near[item] = False
        if not family.any():
            family = near
        for place, choice in enumerate((family, near, near)):
            weights = np.where(choice, catalogue.popularity, 0)
            weights[out[item, :place]] = 0
            out[item, place] = _pick(weights, generator)
    return out


def _shop(catalogue: _Catalogue, companions: IntArray, generator: np.random.Generator) -> list[int]:
    """The rows of the items that a user buys, in order."""
    favourites, taste = _preferences(generator)
    loved = catalogue.brands >= 0
    loved[loved] = favourites[catalogue.brands[loved]]
    fitting = np.asarray(_TASTE, dtype=np.int64)[np.abs(catalogue.tiers - taste)]
    appeal = catalogue.popularity * fitting * np.where(loved, _LOYALTY, 1)
    reach = np.bincount(catalogue.categories, weights=loved, minlength=len(CATEGORIES)).astype(np.int64)
    category = _pick(reach + 1, generator)
    shelf = -1
    bought: list[int] = []
    for _ in range(_SHORTEST + int(generator.random() * (_LONGEST - _SHORTEST + 1))):
        weights = np.zeros_like(appeal)
        if bought and generator.random() < _COMPANION:
            weights[companions[bought[-1]]] = _CLOSENESS
            weights[bought] = 0
        if not weights.any():
            weights = np.where(catalogue.categories == category, appeal, 0)
            weights = weights * np.where(catalogue.shelves == shelf, _SAME_SHELF, 1)
            weights[bought] = 0
        item = _pick(weights, generator)
        bought.append(item)
        shelf = int(catalogue.shelves[item])
        category = _pick(_transitions(int(catalogue.categories[item])), generator)
    return bought


def _transitions(category: int) -> IntArray:
    weights = np.full(len(CATEGORIES), _ANYWHERE, dtype=np.int64)
    for place, weight in zip((category, *CATEGORIES[category].next), (_STAY, *_DRIFT), strict=True):
        weights[place] += weight * len(CATEGORIES)
    return weights


def _dates(count: int, generator: np.random.Generator) -> list[int]:
    gaps = [int(generator.random() * _LONGEST_GAP) + 60 for _ in range(count)]
    start = _OPENING + int(generator.random() * _JOINING_DAYS * _DAY)
    return [int(time) for time in start + np.cumsum(gaps)]


def _pick(weights: IntArray, generator: np.random.Generator) -> int:
    """A position, drawn with probability proportional to its (integer) weight."""
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, int(generator.random() * int(cumulative[-1])), side="right"))


def _one(options: Sequence[T], generator: np.random.Generator) -> T:
    return options[int(generator.random() * len(options))]


def _build_catalogue(generator: np.random.Generator) -> _Catalogue:
    brands, categories = _ranges()
    order = np.argsort(generator.random(ITEMS), kind="stable")
    brands, categories = brands[order], categories[order]
    first_shelf = np.cumsum([0, *(len(category.shelves) for category in CATEGORIES)])
    shelves = np.empty(ITEMS, dtype=np.int64)
    cents = np.empty(ITEMS, dtype=np.int64)
    rows: list[tuple[str, str, str, tuple[str, ...]]] = []
    for row in range(ITEMS):
        category = CATEGORIES[categories[row]]
        shelf = int(generator.random() * len(category.shelves))
        shelves[row] = first_shelf[categories[row]] + shelf
        tier = _TIERS[(brands[row] * 7) % 3]
        cents[row] = category.base * tier * (55 + int(generator.random() * 100)) // 1000
        if generator.random() < _NO_BRAND:
            brands[row] = -1
        name = BRANDS[brands[row]] if brands[row] >= 0 else ""
        title, description = _text(name, category, shelf, generator)
        spelled = name.upper() if generator.random() < _SHOUTED else name
        rows.append((title, description, spelled, (category.name, category.shelves[shelf].name)))
    prices, junk = _prices(cents, generator)
    titles, descriptions, spellings, paths = zip(*rows, strict=True)
    ids = tuple(f"D{row:04d}" for row in range(ITEMS))
    brand_names = normalise_brands(spellings).names
    items = ItemTable(ids, titles, descriptions, brand_names, spellings, prices, paths, ("",) * ITEMS)
    popularity = 2 + np.floor(generator.random(ITEMS) * 7).astype(np.int64)
    return _Catalogue(items, brands, categories, shelves, _thirds(cents, categories), popularity, junk)


def _brand_weights() -> IntArray:
    """[brands] how large each brand is: its share of the catalogue and of people's favour."""
    return 1 + 90 // (np.arange(len(BRANDS), dtype=np.int64) + 9)


def _ranges() -> tuple[IntArray, IntArray]:
    """Brand and department of every item: brand sizes fall with rank, large brands range over three departments."""
    weights = _brand_weights()
    spare = ITEMS - _FEWEST * len(BRANDS)
    marks = np.cumsum(weights) * spare // int(weights.sum())
    sizes = _FEWEST + np.diff(marks, prepend=0)
    brands = np.repeat(np.arange(len(BRANDS), dtype=np.int64), sizes)
    categories = np.empty(ITEMS, dtype=np.int64)
    for brand, size in enumerate(sizes):
        home = brand % len(CATEGORIES)
        lines = (home, *CATEGORIES[home].next)[: 3 if brand < 10 else 2 if brand < 26 else 1]
        categories[brands == brand] = np.resize(lines, size)
    return brands, categories


def _text(brand: str, category: Category, shelf: int, generator: np.random.Generator) -> tuple[str, str]:
    product = _one(category.shelves[shelf].products, generator)
    material, variant = _one(category.materials, generator), _one(_WORDS["variants"], generator)
    in_title = bool(brand) and generator.random() < _BRAND_IN_TITLE
    in_description = bool(brand) and generator.random() < _BRAND_IN_DESCRIPTION
    title = f"{brand} {material} {product}, {variant}" if in_title else f"{material} {product}, {variant}"
    maker = f"{product} by {brand}" if in_description else product
    return title, f"{maker}. {category.shelves[shelf].praise}."


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
