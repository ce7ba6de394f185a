"""What the two Amazon readers share: a compact log of reviews, and a catalogue cut to the reviewed items.

Raw public files are millions of lines long and somebody else's: a line that cannot be used is left out and counted,
and only a file that is mostly unusable is refused.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.data.formats.columns import ItemColumns
from genrec_unlearn_bench.data.formats.folder import check_unknown
from genrec_unlearn_bench.data.formats.lines import BrokenLine, json_object, read_lines
from genrec_unlearn_bench.data.formats.numbers import as_int64, whole_number
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.raw import Interactions, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

__all__ = ["ReviewLog", "assemble", "objects"]

BROKEN = "broken JSON line"
LARGEST_BROKEN_SHARE = 0.5


class ReviewLog:
    """Reviews as three integer columns; users and items are numbered by first appearance.

    Attributes:
        item_numbers: Item id -> number. Knows which metadata is wanted, so that a catalogue of a million items whose
            reviews were filtered to a tenth of it never stands in memory.
    """

    def __init__(self, dropped: Counter[str]) -> None:
        self.item_numbers: dict[str, int] = {}
        self._user_numbers: dict[str, int] = {}
        self._users, self._items, self._times = array("q"), array("q"), array("q")
        self._dropped = dropped

    def __len__(self) -> int:
        return len(self._users)

    def add(self, user: object, item: object, time: object) -> None:
        """Append one review, or count why it cannot be used."""
        stamp = whole_number(time)
        if not isinstance(user, str) or not isinstance(item, str) or not user or not item or stamp is None:
            self._dropped["review without user, item or time"] += 1
            return
        self._users.append(self._user_numbers.setdefault(user, len(self._user_numbers)))
        self._items.append(self.item_numbers.setdefault(item, len(self.item_numbers)))
        self._times.append(stamp)

    def interactions(self, rows: dict[str, int], path: Path) -> Interactions:
        """The log over item rows; reviews of items without metadata are left out and counted."""
        row_of = np.full(len(self.item_numbers), -1, dtype=np.int64)
        for item_id, row in rows.items():
            row_of[self.item_numbers[item_id]] = row
        items = row_of[as_int64(self._items)]
        known = items >= 0
        unknown = int((~known).sum())
        check_unknown(unknown, int(known.sum()), path)
        if unknown:
            self._dropped["review of an item without metadata"] += unknown
        return Interactions(as_int64(self._users)[known], items[known], as_int64(self._times)[known])


def objects(path: Path, dropped: Counter[str], progress: Progress) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one a line; broken lines are counted.

    Raises:
        DataFault: more than half of the lines are broken (checked at the end).
    """
    broken = read = 0
    first = ""
    for number, text in progress.track(path.name, read_lines(path)):
        read += 1
        try:
            record = json_object(text)
        except BrokenLine as fault:
            broken += 1
            first = first or f"line {number}: {fault}"
            continue
        yield record
    if broken > LARGEST_BROKEN_SHARE * read:
        raise DataFault(
            f"{broken} of {read} lines are no JSON objects; {first}",
            where=str(path),
            hint="check that this is the raw file, one JSON object a line",
        )
    if broken:
        dropped[f"{BROKEN} in {path.name}"] = broken


def assemble(
    log: ReviewLog, metadata: Iterable[tuple[str, dict[str, object]]], dropped: Counter[str], path: Path
) -> RawData:
    """The catalogue of reviewed items and the log over it.

    Args:
        metadata: (item id, fields for ``ItemColumns.add``); the first record of a repeated id counts.
        path: The review file, for errors.
    """
    if not len(log):
        raise DataFault("no review can be used", where=str(path), hint="check that this is the raw review file")
    columns = ItemColumns(dropped)
    for item_id, fields in metadata:
        if item_id not in log.item_numbers:
            dropped["metadata of an item without reviews"] += 1
        elif item_id in columns.row:
            dropped["repeated metadata of an item (the first one counts)"] += 1
        else:
            columns.add(item_id, **fields)
    items: ItemTable = columns.finish()
    return RawData(items, log.interactions(columns.row, path), dropped)
