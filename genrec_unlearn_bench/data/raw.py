"""Data as read: an item table and a log of what users did, before any filtering or splitting.

Three kinds of log exist in public data, and they do not turn into one another: dated interactions, ordered sequences
without dates, and next-item examples that are already cut and split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.items import ItemTable


@dataclass(frozen=True, eq=False)
class Interactions:
    """E interactions, dated or in sequences.

    Attributes:
        users: [E] user numbers, any non-negative integers.
        items: [E] rows of the item table.
        times: [E] int64 timestamps in the source's own unit, of which only the order is used (ties stay in source
            order); None for sequences, where each user's rows are in order.
    """

    users: IntArray
    items: IntArray
    times: IntArray | None

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
    log: Interactions | GivenRows
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
