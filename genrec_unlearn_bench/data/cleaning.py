"""Clean a log: repeated lines, the k-core, users with a single interaction, new numbers.

The same user, item and time twice is one interaction written twice; the copy is dropped. The same user and item at
different times are two interactions and stay. Sequences have no times, so a repeat in them cannot be distinguished from
a copy and stays.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.raw import Interactions
from genrec_unlearn_bench.errors import DataFault


def clean(
    items: ItemTable, log: Interactions, k: int, dropped: Counter[str], where: str
) -> tuple[ItemTable, Interactions]:
    """Filter a log, number its users from 0 by first appearance, and count everything left out in ``dropped``.

    Returns:
        The catalogue without items that the k-core removed, and the log over its rows.

    Raises:
        DataFault: nothing is left.
    """
    import pandas as pd

    if not len(log):
        raise DataFault("there is no interaction in the data", where=where, hint="check the file of interactions")
    keep = np.ones(len(log), dtype=np.bool_)
    if log.times is not None:
        rows_of_log = pd.DataFrame({"user": log.users, "item": log.items, "time": log.times})
        keep = ~rows_of_log.duplicated().to_numpy()
    dropped["repeated line (same user, item and time)"] += len(log) - int(keep.sum())
    users, rows = log.users[keep], log.items[keep]
    times = None if log.times is None else log.times[keep]

    # A single interaction is never predicted and never predicts anything.
    core = k_core(np.unique(users, return_inverse=True)[1], rows, k) if k > 1 else np.ones(len(users), dtype=np.bool_)
    lonely = (np.bincount(users[core], minlength=int(users.max(initial=0)) + 1) < 2)[users] & core
    kept = core & ~lonely
    if k > 1:
        dropped[f"interaction outside the {k}-core"] += int((~core).sum())
        dropped[f"user outside the {k}-core"] += len(np.unique(users)) - len(np.unique(users[core]))
    dropped["user with a single interaction"] += int(lonely.sum())
    if not kept.any():
        raise DataFault(
            f"no interactions are left of {len(log)}"
            + (f" after {k}-core filtering" if k > 1 else ": every user has a single one"),
            where=where,
            hint="choose a smaller k" if k > 1 else "a user needs at least two interactions",
        )
    users, rows = users[kept], rows[kept]
    if k > 1:
        occurring, rows = np.unique(rows, return_inverse=True)
        dropped[f"item outside the {k}-core"] += len(items) - len(occurring)
        items = items.take(occurring)
    kept_times = None if times is None else times[kept]
    return items, Interactions(pd.factorize(users)[0].astype(np.int64), rows.astype(np.int64), kept_times)


def k_core(users: IntArray, items: IntArray, k: int) -> BoolArray:
    """[E] True for interactions of the k-core, the largest set in which every user and item has k or more of them.

    Repeated pairs count as often as they occur; with k <= 1 everything stays. ``users``, ``items``: [E] from 0.
    """
    rows = np.arange(len(users), dtype=np.int64)
    while k > 1 and len(rows):
        enough_users = np.bincount(users[rows]) >= k
        enough_items = np.bincount(items[rows]) >= k
        stay = enough_users[users[rows]] & enough_items[items[rows]]
        if stay.all():
            break
        rows = rows[stay]
    keep = np.zeros(len(users), dtype=np.bool_)
    keep[rows] = True
    return keep
