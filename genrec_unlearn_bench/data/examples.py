"""Next-item examples: (user, history, target), histories held as slices of one flat array.

Examples hold item ids. Batches apply semantic IDs from the recommender's own table, so reassigning rewrites no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

PAD = -1
"""Padding behind the last item of a history."""


@dataclass(frozen=True, eq=False)
class Histories:
    """B histories, oldest item first, padded on the right."""

    items: IntArray
    """[B, T] item ids, ``PAD`` behind the last one. T may be 0."""
    users: IntArray
    """[B] user ids (a backbone with user tokens reads them; -1 where there is no user)."""

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]], *, users: Sequence[int] | None = None) -> Histories:
        """Histories from plain lists of item ids."""
        width = max((len(row) for row in lists), default=0)
        items = np.full((len(lists), width), PAD, dtype=np.int64)
        for index, row in enumerate(lists):
            items[index, : len(row)] = row
        owners = np.full(len(lists), -1, dtype=np.int64) if users is None else np.asarray(users, dtype=np.int64)
        return cls(items, owners)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> IntArray:
        """[B] number of items in each history."""
        return np.asarray((self.items != PAD).sum(axis=1), dtype=np.int64)

    def rows(self, index: IntArray | BoolArray) -> Histories:
        """The chosen histories, trimmed to the longest of them."""
        items = self.items[index]
        width = int((items != PAD).sum(axis=1).max(initial=0))
        return Histories(items[:, :width], self.users[index])

    def latest(self, limit: int) -> Histories:
        """Only the ``limit`` most recent items of each history."""
        if self.items.shape[1] <= limit:
            return self
        lengths = self.lengths
        columns = np.maximum(lengths - limit, 0)[:, None] + np.arange(limit, dtype=np.int64)[None, :]
        padded = np.concatenate([self.items, np.full((len(self), limit), PAD, dtype=np.int64)], axis=1)
        return Histories(np.take_along_axis(padded, columns, axis=1), self.users)

    def without(self, items: BoolArray) -> Histories:
        """Histories with the marked items [N] taken out, the rest moved together."""
        return self.without_places(items[np.where(self.items == PAD, 0, self.items)])

    def without_places(self, places: BoolArray) -> Histories:
        """Histories with the marked places [B, T] taken out, the rest moved together."""
        keep = (self.items != PAD) & ~places
        order = np.argsort(~keep, axis=1, kind="stable")
        moved = np.take_along_axis(np.where(keep, self.items, PAD), order, axis=1)
        width = int(keep.sum(axis=1).max(initial=0))
        return Histories(moved[:, :width], self.users)


@dataclass(frozen=True, eq=False)
class Examples:
    """M examples over one flat array of events.

    Attributes:
        users: [M] user of each example.
        targets: [M] item to be predicted.
        times: [M] order of the targets in time (seconds, or a rank where the source has no timestamps).
        events: [E] items of all histories, each history being one slice.
        event_users: [E] whose event it is.
        starts, ends: [M] the history of row m is ``events[starts[m]:ends[m]]``, oldest first.
    """

    users: IntArray
    targets: IntArray
    times: IntArray
    events: IntArray
    event_users: IntArray
    starts: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.targets)

    def subset(self, rows: IntArray | BoolArray) -> Examples:
        """The chosen examples, over the same events."""
        columns = ("users", "targets", "times", "starts", "ends")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def history_lengths(self, limit: int | None = None) -> IntArray:
        """[M] history lengths, after keeping the ``limit`` most recent items."""
        lengths = self.ends - self.starts
        return lengths if limit is None else np.minimum(lengths, limit)

    def histories(self, limit: int | None = None, rows: IntArray | BoolArray | None = None) -> Histories:
        """The histories of all (or the chosen) rows, cut to the ``limit`` most recent items and padded."""
        chosen = self if rows is None else self.subset(rows)
        lengths = chosen.history_lengths(limit)
        width = int(lengths.max(initial=0))
        offsets = np.arange(width, dtype=np.int64)[None, :]
        source = (chosen.ends - lengths)[:, None] + offsets
        filled = offsets < lengths[:, None]
        items = np.full((len(chosen), width), PAD, dtype=np.int64)
        items[filled] = chosen.events[source[filled]]
        return Histories(items, chosen.users)

    def history_contains(self, items: BoolArray, limit: int | None = None) -> BoolArray:
        """[M] whether the (cut) history has one of the marked items. ``items``: [N]."""
        counts = np.concatenate([[0], np.cumsum(items[self.events])])
        first = self.ends - self.history_lengths(limit)
        return np.asarray(counts[self.ends] > counts[first], dtype=np.bool_)

    def drop_events(self, drop: BoolArray) -> Examples:
        """The same rows with the marked events taken out of every history. ``drop``: [E]."""
        return Thinned.of(self, drop).applied(self)

    def without_items(self, items: BoolArray) -> Examples:
        """The same rows with the marked items taken out of every history. ``items``: [N]."""
        return self.drop_events(items[self.events])


@dataclass(frozen=True, eq=False)
class Thinned:
    """Events after some were removed, shared by all examples over the same events."""

    events: IntArray
    event_users: IntArray
    before: IntArray
    """[E + 1] how many events stayed before each place."""

    @classmethod
    def of(cls, examples: Examples, drop: BoolArray) -> Thinned:
        """Without the marked events; ``drop``: [E]."""
        keep = ~drop
        before = np.zeros(len(drop) + 1, dtype=np.int64)
        np.cumsum(keep, out=before[1:])
        return cls(examples.events[keep], examples.event_users[keep], before)

    def applied(self, examples: Examples) -> Examples:
        """The same rows, over the events that stayed."""
        starts, ends = self.before[examples.starts], self.before[examples.ends]
        return replace(examples, events=self.events, event_users=self.event_users, starts=starts, ends=ends)


def among(codes: IntArray, few: IntArray) -> BoolArray:
    """Which codes, of any shape, are among ``few`` [m], ascending.

    As ``np.isin``, but without a sort of the codes: the log's pairs are many times as many as the drawn ones.
    """
    if not len(few):
        return np.zeros(codes.shape, dtype=np.bool_)
    place = np.searchsorted(few, codes)
    np.minimum(place, len(few) - 1, out=place)
    return np.asarray(few[place] == codes, dtype=np.bool_)


def distinct(codes: IntArray) -> IntArray:
    """The different codes, ascending: ``np.unique``, whose hash table takes ten times as long where most differ."""
    ordered = np.sort(codes)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]
