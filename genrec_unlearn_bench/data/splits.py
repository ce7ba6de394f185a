"""Cut a log into next-item examples and divide these into train, valid and test.

An example is (user, everything the user did before, next item); one without any history is no example. The histories of
valid and test reach back over everything earlier, train and valid targets included, as at serving time. All three parts
are views of one flat array of events, sorted by user and then by time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.raw import GivenRows


class SplitParts(NamedTuple):
    """The three parts of a dataset, over the same events."""

    train: Examples
    valid: Examples
    test: Examples


def global_time(users: IntArray, items: IntArray, times: IntArray) -> SplitParts:
    """Split 80/10/10 by the time of the target, as MiniOneRec does.

    With n examples, the first ⌊8n/10⌋ are train and those up to ⌊9n/10⌋ are valid. Ties in time, also within one
    user's history, are broken by the order of the source.

    Args:
        users, items, times: [E] in source order.
    """
    order = np.lexsort((times, users))  # stable: ties stay in source order
    every, _ = _timeline(users[order], items[order], times[order])
    targets = np.flatnonzero(every.ends > every.starts)
    by_time = targets[np.lexsort((order[targets], every.times[targets]))]
    bounds = [len(by_time) * tenths // 10 for tenths in (8, 9)]
    return SplitParts(*map(every.subset, np.split(by_time, bounds)))


def leave_one_out(users: IntArray, items: IntArray, times: IntArray | None = None) -> SplitParts:
    """Take each user's last item as test target, the one before it as valid target, all earlier ones as train targets.

    A user with two items has a test example alone.

    Args:
        users, items: [E]; without ``times``, a user's rows are in order.
        times: [E]; the position within the user's sequence where the source has none.
    """
    order = np.lexsort((users,)) if times is None else np.lexsort((times, users))
    every, behind = _timeline(users[order], items[order], None if times is None else times[order])
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
    bounds = np.cumsum([len(rows.train), len(rows.valid)])
    return SplitParts(*map(every.subset, np.split(np.arange(len(users)), bounds)))


def _timeline(users: IntArray, items: IntArray, times: IntArray | None) -> tuple[Examples, IntArray]:
    """Events sorted by user and time as examples of all events before; [E] how many events of its user follow each."""
    _, first, counts = np.unique(users, return_index=True, return_counts=True)
    starts = np.repeat(first, counts).astype(np.int64)
    rows = np.arange(len(users), dtype=np.int64)
    order = rows - starts if times is None else times
    behind = np.repeat(first + counts, counts) - 1 - rows
    return Examples(users, items, order, items, users, starts, rows), behind
