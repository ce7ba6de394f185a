"""The ``demo`` dataset: synthetic, deterministic, shipped as code, so that everything can be tried without any file.

Nothing in it is real. What it imitates, and why:

- 40 brands of skewed size; users have a few favourites and buy them far more often than chance. So a model learns the
  brands, and forgetting one is a real problem.
- Departments drift as a Markov chain along the lines on which brands range, so a sequence model has something to learn
  that popularity does not know.
- Every item has three companions, one of its own brand and two of the department or the next, and most purchases are
  companions of the last one: an item-to-item signal that a small network learns in seconds, and that ties the brands
  to what is bought beside them.
- Otherwise, within a department, a user chooses by favourite brand, by the shelf of the last purchase, by price taste
  and by popularity. Prices depend on department, brand and chance, so the price bands cut through both.
- Most titles and about half of the descriptions carry the brand's name, as real catalogues do.
- A few items have no brand, no price, or a junk price that is left out and counted.

Weights are integers and the only random source is ``Generator.random`` (raw bits scaled to [0, 1)), so the data are the
same on every machine and for every version of NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.demo_catalogue import Catalogue, brand_weights, build_catalogue, pick
from genrec_unlearn_bench.data.demo_words import BRANDS, CATEGORIES
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.prices import PriceFault
from genrec_unlearn_bench.data.raw import Interactions, RawData
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["CONTENT", "generate"]

CONTENT = "37a0caf25c8c572802e3b9c348262d5f"
"""Digest of what seed 0 gives, held by a test. Prepared data are keyed by this file's bytes: whoever changes the words
or the catalogue in the files beside it has to change this line as well."""

USERS = 1500
_SHORTEST, _LONGEST = 6, 12
_FAVOURITES = 4
_DAY = 86_400
_OPENING = 1_577_836_800  # 2020-01-01 00:00 UTC
_JOINING_DAYS = 900
_LONGEST_GAP = 25 * _DAY

_STAY, _DRIFT_FIRST, _DRIFT_SECOND, _ANYWHERE = 10, 5, 3, 2
"""Weights of the next department: the same, its two neighbours, any."""
_LOYALTY = 40
_SAME_SHELF = 4
_COMPANION = 0.75
"""Chance that a purchase goes with the last one."""
_CLOSENESS = np.asarray([5, 3, 2], dtype=np.int64)
"""Weights of an item's three companions: that of its own brand comes first."""
_TASTE = (6, 2, 1)
"""Weight by the distance between an item's price tier and the user's taste."""


@dataclass(frozen=True, eq=False)
class _Shopper:
    """What a user wants: favourite brands ([brands] bool) and a price taste from 0 (cheap) to 2 (dear)."""

    favourites: NDArray[np.bool_]
    taste: int


def generate(seed: int = 0) -> RawData:
    """The demo data. The shipped dataset is seed 0; other seeds are other worlds of the same make.

    Returns:
        400 items and 13,500 or so dated interactions of 1,500 users; no user has an item twice.
    """
    catalogue = build_catalogue(numpy_generator(seed, "demo", "items"))
    companions = _companions(catalogue, numpy_generator(seed, "demo", "companions"))
    users: list[int] = []
    items: list[int] = []
    times: list[int] = []
    for user in range(USERS):
        generator = numpy_generator(seed, "demo", "user", user)
        bought = _shop(catalogue, companions, _shopper(generator), generator)
        users += [user] * len(bought)
        items += bought
        times += _dates(len(bought), generator)
    order = np.argsort(np.asarray(times), kind="stable")
    log = Interactions(*(np.asarray(column, dtype=np.int64)[order] for column in (users, items, times)))
    return RawData(
        items=catalogue.items,
        log=log,
        dropped={str(PriceFault.JUNK): catalogue.junk_prices},
        notes=(f"synthetic: generated with seed {seed}; no item, brand or user is real",),
    )


def _shopper(generator: np.random.Generator) -> _Shopper:
    sizes = brand_weights()
    favourites = np.zeros(len(BRANDS), dtype=np.bool_)
    for _ in range(_FAVOURITES):
        favourites[pick(np.where(favourites, 0, sizes), generator)] = True
    return _Shopper(favourites, pick(np.asarray([3, 4, 3]), generator))


def _companions(catalogue: Catalogue, generator: np.random.Generator) -> IntArray:
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
            out[item, place] = pick(weights, generator)
    return out


def _shop(catalogue: Catalogue, companions: IntArray, shopper: _Shopper, generator: np.random.Generator) -> list[int]:
    """The rows of the items that a user buys, in order."""
    loved = catalogue.brands >= 0
    loved[loved] = shopper.favourites[catalogue.brands[loved]]
    taste = np.asarray(_TASTE, dtype=np.int64)[np.abs(catalogue.tiers - shopper.taste)]
    appeal = catalogue.popularity * taste * np.where(loved, _LOYALTY, 1)
    reach = np.bincount(catalogue.categories, weights=loved, minlength=len(CATEGORIES)).astype(np.int64)
    category = pick(reach + 1, generator)
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
        item = pick(weights, generator)
        bought.append(item)
        shelf = int(catalogue.shelves[item])
        category = pick(_transitions(int(catalogue.categories[item])), generator)
    return bought


def _transitions(category: int) -> IntArray:
    weights = np.full(len(CATEGORIES), _ANYWHERE, dtype=np.int64)
    first, second = CATEGORIES[category].next
    weights[category] += _STAY * len(CATEGORIES)
    weights[first] += _DRIFT_FIRST * len(CATEGORIES)
    weights[second] += _DRIFT_SECOND * len(CATEGORIES)
    return weights


def _dates(count: int, generator: np.random.Generator) -> list[int]:
    gaps = [int(generator.random() * _LONGEST_GAP) + 60 for _ in range(count)]
    start = _OPENING + int(generator.random() * _JOINING_DAYS * _DAY)
    return [int(time) for time in start + np.cumsum(gaps)]
