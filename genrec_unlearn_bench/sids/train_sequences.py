"""What indexers may read of the interactions: the train rows' own histories and targets, and nothing else.

``Examples.events`` is one flat array that the train, valid and test rows share, so reading it whole would leak what is
to be predicted into the IDs. P5's original numbering did so: a target was the largest number so far plus one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import Examples

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["appearance_order", "user_items", "walk"]

IntArray = NDArray[np.int64]


def walk(train: Examples) -> tuple[IntArray, IntArray]:
    """Users [W] and items [W] in the order of a walk: user by user, each one's rows in time, history before target.

    An interaction shows up once for every row that has it in its history; first appearances and sets are what counts.
    """
    order = np.lexsort((np.arange(len(train)), train.times, train.users))
    lengths = (train.ends - train.starts)[order] + 1
    firsts = np.cumsum(lengths) - lengths
    row = np.repeat(np.arange(len(order)), lengths)
    place = np.arange(len(row)) - firsts[row]
    is_target = place == lengths[row] - 1
    items = np.empty(len(row), dtype=np.int64)
    items[is_target] = train.targets[order]
    inside = ~is_target
    items[inside] = train.events[train.starts[order][row[inside]] + place[inside]]
    return train.users[order][row], items


def appearance_order(train: Examples, items: int) -> IntArray:
    """[N] item ids by first appearance in the walk; those that never appear follow in the order of their ids."""
    _, seen = walk(train)
    distinct, first = np.unique(seen, return_index=True)
    appeared = distinct[np.argsort(first, kind="stable")]
    rest = np.setdiff1d(np.arange(items), appeared, assume_unique=True)
    return np.concatenate([appeared, rest]).astype(np.int64)


def user_items(train: Examples, items: int) -> csr_array:
    """[U, N] sparse, 1 where a train user has had an item."""
    from scipy.sparse import csr_array

    users, seen = walk(train)
    pairs = np.unique(np.stack([users, seen], axis=1), axis=0) if len(users) else np.empty((0, 2), dtype=np.int64)
    rows = np.unique(pairs[:, 0], return_inverse=True)[1]
    shape = (int(rows.max(initial=-1)) + 1, items)
    return csr_array((np.ones(len(pairs)), (rows, pairs[:, 1])), shape=shape)
