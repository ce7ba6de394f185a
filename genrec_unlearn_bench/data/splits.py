"""Cut a log into next-item examples and divide these into train, valid and test.

An example is (user, everything the user did before, next item); one without any history is no example. The histories of
valid and test reach back over everything earlier, train and valid targets included, as at serving time. All three parts
are views of one flat array of events, sorted by user and then by time.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    timeline = _Timeline.of(users[order], items[order], times[order])
    targets = np.flatnonzero(timeline.positions > 0)
    by_time = targets[np.lexsort((order[targets], timeline.times[targets]))]
    bounds = [len(by_time) * tenths // 10 for tenths in (8, 9)]
    return SplitParts(*map(timeline.examples, np.split(by_time, bounds)))


def leave_one_out(users: IntArray, items: IntArray, times: IntArray | None = None) -> SplitParts:
    """Take each user's last item as test target, the one before it as valid target, all earlier ones as train targets.

    A user with two items has a test example alone.

    Args:
        users, items: [E]; without ``times``, a user's rows are in order.
        times: [E]; the position within the user's sequence where the source has none.
    """
    order = np.lexsort((users,)) if times is None else np.lexsort((times, users))
    timeline = _Timeline.of(users[order], items[order], None if times is None else times[order])
    from_end = timeline.lengths - 1 - timeline.positions
    parts = (from_end >= 2, from_end == 1, from_end == 0)
    return SplitParts(*(timeline.examples(np.flatnonzero((timeline.positions > 0) & part)) for part in parts))


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


@dataclass(frozen=True, eq=False)
class _Timeline:
    """E events sorted by user and time; ``starts`` and ``lengths`` [E]: of the run of each event's user."""

    users: IntArray
    items: IntArray
    times: IntArray
    starts: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, users: IntArray, items: IntArray, times: IntArray | None) -> _Timeline:
        _, first, counts = np.unique(users, return_index=True, return_counts=True)
        starts = np.repeat(first, counts).astype(np.int64)
        lengths = np.repeat(counts, counts).astype(np.int64)
        positions = np.arange(len(users), dtype=np.int64) - starts
        return cls(users, items, positions if times is None else times, starts, lengths)

    @property
    def positions(self) -> IntArray:
        """[E] 0 for a user's first event."""
        return np.arange(len(self.users), dtype=np.int64) - self.starts

    def examples(self, rows: IntArray) -> Examples:
        return Examples(
            users=self.users[rows],
            targets=self.items[rows],
            times=self.times[rows],
            events=self.items,
            event_users=self.users,
            starts=self.starts[rows],
            ends=rows,
        )
