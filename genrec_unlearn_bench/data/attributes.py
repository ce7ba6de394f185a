"""Values of an item field: names, none, one or many to an item, and numbers in bands.

Spellings of one value ("Film-Noir", "film-noir ") are one value, shown in its most frequent spelling. With ``path`` a
value is a path from broad to fine, and each of its beginnings is a value that can be chosen: an item under
``Sports > Running > Trail`` has ``Sports``, ``Sports > Running`` and the whole path. ``categories`` are one path to an
item; other fields hold paths as text with ``>`` between the names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.fields import brand_key
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.tasks import AttributeRule

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Entry = tuple[str, ...]
"""One value as a path of names from broad to fine; without ``path``, of one name."""

BETWEEN = " > "


def item_entries(items: ItemTable, rule: AttributeRule) -> list[tuple[Entry, ...]]:
    """The values of each item, in the field's order. Raises UnknownName where the items have no such field."""
    listed: Sequence[tuple[str, ...]] = items.values(rule.field)
    if (between := rule.split) is not None:
        parts = ([part.strip() for text in own for part in text.split(between)] for own in listed)
        listed = [tuple(filter(None, own)) for own in parts]
    if not rule.path:
        return [tuple((name,) for name in own) for own in listed]
    if rule.field == "categories":
        return [(own,) if own else () for own in listed]
    return [tuple(filter(None, map(_path, own))) for own in listed]


def _path(value: str) -> Entry:
    return tuple(name for part in value.split(">") if (name := part.strip()))


def value_key(name: str, rule: AttributeRule) -> str:
    """Comparison key of a value as a user names it."""
    return brand_key(BETWEEN.join(_path(name)) if rule.path else name)


def prefix_keys(entry: Entry) -> list[str]:
    """Comparison keys of the values that an item with this entry has, from broad to fine."""
    return [brand_key(BETWEEN.join(entry[: length + 1])) for length in range(len(entry))]


def without_values(entry: Entry, chosen: frozenset[str]) -> tuple[Entry, Entry]:
    """(names that stay, names that leave): the first name that is ``chosen``, by its key, leaves, and all below it."""
    cut = next((place for place, key in enumerate(prefix_keys(entry)) if key in chosen), len(entry))
    return entry[:cut], entry[cut:]


@dataclass(frozen=True, eq=False)
class AttributeValues:
    """V values over N items."""

    names: tuple[str, ...]
    """Alphabetical."""
    members: csr_matrix
    """[N, V] 1 where an item has the value (with ``match: first``, as its first one)."""
    every: bool
    """An item belongs to a concept only if each of its entries has a chosen value (``match: all``)."""
    rows: IntArray
    """[R] items with any value, ascending."""
    codes: IntArray
    """[K] value numbers, entry after entry."""
    entries: IntArray
    """[E] where each entry begins in ``codes``."""
    starts: IntArray
    """[R] where each item's entries begin in ``entries``."""

    @classmethod
    def of(cls, items: ItemTable, rule: AttributeRule) -> AttributeValues:
        """Raises UnknownName where the items have no such field."""
        from scipy import sparse

        listed = [own[:1] if rule.match == "first" else own for own in item_entries(items, rule)]
        spellings: dict[str, Counter[str]] = {}
        for own in listed:
            for entry in own:
                for length, key in enumerate(prefix_keys(entry), start=1):
                    spellings.setdefault(key, Counter())[BETWEEN.join(entry[:length])] += 1
        shown = {key: found.most_common(1)[0][0] for key, found in spellings.items()}
        keys = sorted(shown, key=lambda key: (shown[key], key))
        place = {key: column for column, key in enumerate(keys)}
        codes = [place[key] for own in listed for entry in own for key in prefix_keys(entry)]
        sizes = np.asarray([len(entry) for own in listed for entry in own], dtype=np.int64)
        counts = np.asarray([len(own) for own in listed], dtype=np.int64)
        rows = np.flatnonzero(counts)
        owners = np.repeat(np.repeat(np.arange(len(listed)), counts), sizes)
        members = sparse.csr_matrix((np.ones(len(codes), dtype=np.int64), (owners, codes)), (len(listed), len(keys)))
        members.data[:] = 1  # The sum of equal places: an item counts once.
        names, starts = tuple(shown[key] for key in keys), (np.cumsum(counts) - counts)[rows]
        every, numbers = rule.match == "all", np.asarray(codes, dtype=np.int64)
        return cls(names, members, every, rows, numbers, np.cumsum(sizes) - sizes, starts)

    def joined(self, positions: IntArray) -> IntArray:
        """[R] the position at which each item is in a concept that values [V] enter at ``positions``, one by one."""
        own = np.minimum.reduceat(positions[self.codes], self.entries)
        return np.asarray((np.maximum if self.every else np.minimum).reduceat(own, self.starts))

    def items_of(self, chosen: IntArray) -> BoolArray:
        """[N] the items in the concept of these values."""
        positions = np.ones(len(self.names), dtype=np.int64)
        positions[chosen] = 0
        items = np.zeros(self.members.shape[0], dtype=np.bool_)
        items[self.rows[self.joined(positions) == 0]] = True
        return items


NO_BAND = 0
"""The band of an item without a number; bands themselves count from 1."""


def number_bands(numbers: NDArray[np.float64], bands: int) -> IntArray:
    """Cut prices, or other finite numbers [N], into quantile bands of nearly equal size.

    Boundary k (of ``bands - 1``) is set between two different numbers, where the share of items below comes nearest
    to ``k / bands`` (the lower of two equally near places), moved only as far as it takes to leave no band empty. So
    items of one price are never parted, free items all lie in band 1, and without ties bands differ by one item.

    Returns [N] bands from 1 (lowest), ``NO_BAND`` where the number is not finite; raises ValueError where there are
    fewer different numbers than bands.
    """
    valid = np.isfinite(numbers)
    distinct, rank, sizes = np.unique(numbers[valid], return_inverse=True, return_counts=True)
    if len(distinct) < bands:
        raise ValueError(f"{len(distinct)} different numbers cannot make {bands} bands")
    below = np.cumsum(sizes)  # items at or below each number: a boundary lies behind one
    total = int(below[-1])
    behind: list[int] = []
    for k in range(1, bands):
        # Integers throughout: the place must not depend on rounding. `k * total / bands` items should lie below.
        distance = np.abs(below * bands - k * total)
        first = behind[-1] + 1 if behind else 0
        last = len(distinct) - 1 - (bands - k)
        behind.append(first + int(np.argmin(distance[first : last + 1])))
    out = np.full(len(numbers), NO_BAND, dtype=np.int64)
    out[valid] = 1 + np.searchsorted(np.asarray(behind, dtype=np.int64), rank, side="left")
    return out
