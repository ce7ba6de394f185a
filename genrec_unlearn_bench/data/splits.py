"""A log of what users did: filter it, cut it into next-item examples, and divide these into train, valid and test.

Three kinds of log exist in public data, and they do not turn into one another: dated interactions, ordered sequences
without dates, and next-item examples that are already cut and split.

The same user, item and time twice is one interaction written twice; the copy is dropped. The same user and item at
different times are two interactions and stay. Sequences have no times, so a repeat in them cannot be distinguished from
a copy and stays.

An example is (user, everything the user did before, next item); one without any history is no example. The histories of
valid and test reach back over everything earlier, train and valid targets included, as at serving time. All three parts
are views of one flat array of events, sorted by user and then by time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.errors import DataFault


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
    """M ready-made examples of one part; users are numbered across the parts, items are rows of the item table."""

    users: IntArray
    targets: IntArray
    histories: IntArray
    """[sum of lengths] history after history, oldest item first."""
    lengths: IntArray
    """[M] length of each history, at least 1."""


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Examples that come with their split, as MiniOneRec publishes them."""

    train: GivenPart
    valid: GivenPart
    test: GivenPart

    def __len__(self) -> int:
        return sum(len(part.targets) for part in (self.train, self.valid, self.test))


@dataclass(frozen=True, eq=False)
class RawData:
    """One source as read."""

    items: ItemTable
    """The catalogue; rows that no log entry refers to are allowed and kept."""
    log: Interactions | GivenRows
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of lines (or of values, where the reason says so) the reader left out."""
    notes: tuple[str, ...] = ()


def clean(
    items: ItemTable, log: Interactions, k: int, dropped: Counter[str], where: str
) -> tuple[ItemTable, Interactions]:
    """Filter a log, number its users from 0 by first appearance, and count everything left out in ``dropped``.

    Returns the catalogue without items that the k-core removed, and the log over its rows; raises DataFault where
    nothing is left.
    """
    import pandas as pd

    if not len(log):
        raise DataFault("there is no interaction in the data", where=where, hint="check the file of interactions")
    users, rows, times = log.users, log.items, log.times
    if times is not None:
        new = ~pd.DataFrame({"user": users, "item": rows, "time": times}).duplicated().to_numpy()
        users, rows, times = users[new], rows[new], times[new]
    dropped["repeated line (same user, item and time)"] += len(log) - len(users)

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
    times = None if times is None else times[kept]
    return items, Interactions(pd.factorize(users)[0].astype(np.int64), rows.astype(np.int64), times)


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


class SplitParts(NamedTuple):
    """The three parts of a dataset, over the same events."""

    train: Examples
    valid: Examples
    test: Examples


def global_time(users: IntArray, items: IntArray, times: IntArray) -> SplitParts:
    """Split 80/10/10 by the time of the target, as MiniOneRec does.

    With n examples, the first ⌊8n/10⌋ are train and those up to ⌊9n/10⌋ are valid. Ties in time, also within one
    user's history, are broken by the order of the source, in which ``users``, ``items``, ``times`` [E] stand.
    """
    order = np.lexsort((times, users))  # stable: ties stay in source order
    every, _ = timeline(users[order], items[order], times[order])
    targets = np.flatnonzero(every.ends > every.starts)
    by_time = targets[np.lexsort((order[targets], every.times[targets]))]
    bounds = [len(by_time) * tenths // 10 for tenths in (8, 9)]
    return SplitParts(*map(every.subset, np.split(by_time, bounds)))


def leave_one_out(users: IntArray, items: IntArray, times: IntArray | None = None) -> SplitParts:
    """Take each user's last item as test target, the one before it as valid target, all earlier ones as train targets.

    A user with two items has a test example alone. ``users``, ``items``, ``times``: [E]; without times, a user's rows
    are in order.
    """
    order = np.lexsort((users,)) if times is None else np.lexsort((times, users))
    every, behind = timeline(users[order], items[order], None if times is None else times[order])
    parts = (behind >= 2, behind == 1, behind == 0)
    return SplitParts(*(every.subset(np.flatnonzero((every.ends > every.starts) & part)) for part in parts))


def as_given(rows: GivenRows) -> SplitParts:
    """Keep ready-made examples as they are; each history is a slice of its own. Users are numbered as they appear."""
    import pandas as pd

    parts = (rows.train, rows.valid, rows.test)
    users = pd.factorize(np.concatenate([part.users for part in parts]))[0].astype(np.int64)
    lengths = np.concatenate([part.lengths for part in parts])
    ends = np.cumsum(lengths)
    every = Examples(
        users=users,
        targets=np.concatenate([part.targets for part in parts]),
        times=np.arange(len(users), dtype=np.int64),
        events=np.concatenate([part.histories for part in parts]),
        event_users=np.repeat(users, lengths),
        starts=ends - lengths,
        ends=ends,
    )
    bounds = np.cumsum([len(part.targets) for part in parts[:2]])
    return SplitParts(*map(every.subset, np.split(np.arange(len(users)), bounds)))


def timeline(users: IntArray, items: IntArray, times: IntArray | None) -> tuple[Examples, IntArray]:
    """Events sorted by user and time as examples of all events before; [E] how many events of its user follow each."""
    _, first, counts = np.unique(users, return_index=True, return_counts=True)
    starts = np.repeat(first, counts).astype(np.int64)
    rows = np.arange(len(users), dtype=np.int64)
    order = rows - starts if times is None else times
    behind = np.repeat(first + counts, counts) - 1 - rows
    return Examples(users, items, order, items, users, starts, rows), behind
