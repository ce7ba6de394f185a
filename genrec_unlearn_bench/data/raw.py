"""Data as read: an item table and a log of what users did, before any filtering or splitting.

Three kinds of log exist in public data, and they do not turn into one another: dated interactions, ordered sequences
without dates, and next-item examples that somebody else has already cut and split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.items import ItemTable

__all__ = ["GivenPart", "GivenRows", "Interactions", "Log", "RawData", "Sequences"]


@dataclass(frozen=True, eq=False)
class Interactions:
    """E dated interactions in source order (which breaks ties in time).

    Attributes:
        users: [E] user numbers, any non-negative integers.
        items: [E] rows of the item table.
        times: [E] int64 timestamps; the unit is the source's own, only their order is used.
    """

    users: IntArray
    items: IntArray
    times: IntArray

    def __post_init__(self) -> None:
        _same_length(users=self.users, items=self.items, times=self.times)

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, eq=False)
class Sequences:
    """E interactions without dates: a user's rows are in the order in which they happened.

    Attributes:
        users: [E] user numbers; rows of different users may be interleaved.
        items: [E] rows of the item table.
    """

    users: IntArray
    items: IntArray

    def __post_init__(self) -> None:
        _same_length(users=self.users, items=self.items)

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, eq=False)
class GivenPart:
    """M ready-made examples of one part, each with its own history.

    Attributes:
        users: [M] user numbers, shared between the parts.
        targets: [M] rows of the item table.
        histories: [sum of lengths] rows of the item table, history after history, oldest item first.
        lengths: [M] length of each history, at least 1.
    """

    users: IntArray
    targets: IntArray
    histories: IntArray
    lengths: IntArray

    def __post_init__(self) -> None:
        _same_length(users=self.users, targets=self.targets, lengths=self.lengths)
        if int(self.lengths.sum()) != len(self.histories):
            raise ValueError(f"lengths sum to {int(self.lengths.sum())}, but there are {len(self.histories)} items")

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Examples that come with their split, as MiniOneRec publishes them."""

    train: GivenPart
    valid: GivenPart
    test: GivenPart

    def __len__(self) -> int:
        return len(self.train) + len(self.valid) + len(self.test)


Log = Interactions | Sequences | GivenRows


@dataclass(frozen=True, eq=False)
class RawData:
    """One source as read.

    Attributes:
        items: The catalogue; rows that no log entry refers to are allowed and kept.
        log: What users did.
        dropped: Reason -> number of lines (or of values, where the reason says so) the reader left out.
        notes: Facts for the manifest.
    """

    items: ItemTable
    log: Log
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def _same_length(**columns: IntArray) -> None:
    if len({len(column) for column in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise ValueError(f"columns of different length: {sizes}")
