"""What a probe is trained on: labelled rows, each of one item and one user, in an item's level-1 code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray

__all__ = ["Rows", "rank_within"]


@dataclass(frozen=True, eq=False)
class Rows:
    """n candidates for a probe, all [n].

    Attributes:
        places: Row of each in the array of states that is probed.
        labels: True where it belongs to the concept (or to the pseudo-concept of a control task).
        items: Item that it is about.
        users: User that it comes from; for rows about items alone, a number of their own.
        codes: Level-1 code of the item in the original table.
    """

    places: IntArray
    labels: BoolArray
    items: IntArray
    users: IntArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: IntArray | BoolArray) -> Rows:
        """The chosen rows."""
        return Rows(self.places[index], self.labels[index], self.items[index], self.users[index], self.codes[index])


def rank_within(groups: IntArray, keys: NDArray[np.float64]) -> IntArray:
    """[n] place of each row among those of its group, from 0, by ascending key."""
    order = np.lexsort((keys, groups))
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_groups[1:] != sorted_groups[:-1]])[: len(groups)])
    first = np.repeat(starts, np.diff(np.append(starts, len(groups))))
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - first
    return ranks
