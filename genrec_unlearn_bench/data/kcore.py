"""k-core filtering: keep the largest set of interactions in which every user and every item has at least k."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray

__all__ = ["k_core"]


def k_core(users: IntArray, items: IntArray, k: int) -> BoolArray:
    """Which of the E interactions belong to the k-core; repeated pairs count as often as they occur.

    Dropping a user lowers its items' counts and the other way round, so the two are repeated until nothing changes. The
    outcome does not depend on the order: it is the union of all sets that meet the condition.

    Args:
        users, items: [E] numbers from 0.
        k: Smallest number of interactions; with k <= 1 everything stays.
    """
    keep = np.ones(len(users), dtype=np.bool_)
    rows = np.arange(len(users), dtype=np.int64)
    while k > 1 and len(rows):
        enough_users = np.bincount(users[rows]) >= k
        enough_items = np.bincount(items[rows]) >= k
        stay = enough_users[users[rows]] & enough_items[items[rows]]
        if stay.all():
            break
        rows = rows[stay]
    keep[:] = False
    keep[rows] = True
    return keep
