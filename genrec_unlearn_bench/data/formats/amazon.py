"""The McAuley lab's Amazon files of 2018 and 2023.

2018: ``<Category>_5.json.gz`` and ``meta_<Category>.json.gz``, one JSON object a line. Reviews: ``reviewerID``,
``asin``, ``unixReviewTime`` (seconds). Metadata: ``asin``, ``title``, ``brand``, ``category``, ``description`` (lists),
``price`` (a string). The metadata was scraped: titles may be the start of a tag, prices a style sheet, and products are
listed more than once.

2023: jsonl files, or the 5-core rating csv with the metadata. Reviews: ``user_id``, ``parent_asin``, ``timestamp``
(milliseconds). Ratings: ``user_id,parent_asin,rating,timestamp``. Metadata: ``parent_asin``, ``title``, ``description``
(a list), ``categories``, ``price`` (number, text or null), ``details`` with ``Brand``, and ``store``. The brand is
``details.Brand``, else the store's name, as a store page is one brand's page in nearly all cases. Items are parent
products: variants share one row.

Both are millions of lines long and somebody else's: a line that cannot be used is left out and counted, and only a file
that is mostly unusable is refused.
"""

from __future__ import annotations

import csv
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.data.formats.folder import count_unknown
from genrec_unlearn_bench.data.formats.lines import (
    BrokenLine,
    as_int64,
    column_places,
    json_object,
    read_lines,
    whole_number,
)
from genrec_unlearn_bench.data.raw import Interactions, ItemColumns, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

_RATING_COLUMNS = {name: (name,) for name in ("user_id", "parent_asin", "timestamp")}
_LARGEST_BROKEN_SHARE = 0.5


def read_2018(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read roles ``reviews`` and ``meta``."""
    dropped: Counter[str] = Counter()
    log = _ReviewLog(dropped)
    for record in _objects(files["reviews"], dropped, progress):
        log.add(record.get("reviewerID"), record.get("asin"), record.get("unixReviewTime"))
    return _raw_data(log, metadata_2018(files["meta"], dropped, progress), dropped, files["reviews"])


def read_2023(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read ``meta`` and one of ``reviews`` (jsonl) and ``ratings`` (csv)."""
    dropped: Counter[str] = Counter()
    log = _ReviewLog(dropped)
    if "ratings" in files:
        _ratings(files["ratings"], log, dropped, progress)
    else:
        for record in _objects(files["reviews"], dropped, progress):
            log.add(record.get("user_id"), record.get("parent_asin"), record.get("timestamp"))
    source = files.get("ratings") or files["reviews"]
    return _raw_data(log, _metadata_2023(files["meta"], dropped, progress), dropped, source)


def metadata_2018(path: Path, dropped: Counter[str], progress: Progress) -> Iterator[tuple[str, dict[str, Any]]]:
    """(asin, fields for ``ItemColumns.add``) of every metadata line that names a product."""
    for asin, record in _products(path, "asin", dropped, progress):
        # The 2014 files call the same field "categories".
        categories = record.get("category", record.get("categories"))
        fields = {name: record.get(name) for name in ("title", "description", "brand", "price")}
        yield asin, {**fields, "categories": categories}


def _metadata_2023(path: Path, dropped: Counter[str], progress: Progress) -> Iterator[tuple[str, dict[str, Any]]]:
    for asin, record in _products(path, "parent_asin", dropped, progress):
        fields = {name: record.get(name) for name in ("title", "description", "price", "categories")}
        yield asin, {**fields, "brand": _brand(record)}


def _products(path: Path, key: str, dropped: Counter[str], progress: Progress) -> Iterator[tuple[str, dict[str, Any]]]:
    for record in _objects(path, dropped, progress):
        asin = record.get(key)
        if isinstance(asin, str) and asin:
            yield asin, record
        else:
            dropped[f"metadata without {'an' if key == 'asin' else 'a'} {key}"] += 1


def _brand(record: Mapping[str, object]) -> object:
    details = record.get("details")
    if isinstance(details, str):
        # The Hub's parquet copies hold this object as text.
        with suppress(BrokenLine):
            details = json_object(details)
    brand = details.get("Brand") if isinstance(details, dict) else None
    return brand if isinstance(brand, str) and brand.strip() else record.get("store")


def _ratings(path: Path, log: _ReviewLog, dropped: Counter[str], progress: Progress) -> None:
    rows = csv.reader(text for _, text in progress.track(path.name, read_lines(path)))
    try:
        header = next(rows)
        user, item, time = column_places(header, _RATING_COLUMNS, path)
        for cells in rows:
            if len(cells) != len(header):
                dropped["rating with missing columns"] += 1
            else:
                log.add(cells[user], cells[item], cells[time])
    except csv.Error as fault:
        raise DataFault(f"not a csv file: {fault}", where=f"{path}, line {rows.line_num}") from None


class _ReviewLog:
    """Reviews as three integer columns; users and items are numbered by first appearance."""

    def __init__(self, dropped: Counter[str]) -> None:
        # Says which metadata is wanted, so that a large catalogue with reviews of a tenth of it is never in memory.
        self.item_numbers: dict[str, int] = {}
        self._user_numbers: dict[str, int] = {}
        self._users, self._items, self._times = array("q"), array("q"), array("q")
        self._dropped = dropped

    def __len__(self) -> int:
        return len(self._users)

    def add(self, user: object, item: object, time: object) -> None:
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
        unknown, reason = int((~known).sum()), "review of an item without metadata"
        count_unknown(unknown, int(known.sum()), self._dropped, path, reason)
        return Interactions(as_int64(self._users)[known], items[known], as_int64(self._times)[known])


def _objects(path: Path, dropped: Counter[str], progress: Progress) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one a line, broken lines counted; DataFault at the end where most are broken."""
    broken = read = 0
    first = ""
    for number, text in progress.track(path.name, read_lines(path)):
        read += 1
        try:
            yield json_object(text)
        except BrokenLine as fault:
            broken += 1
            first = first or f"line {number}: {fault}"
    if broken > _LARGEST_BROKEN_SHARE * read:
        raise DataFault(
            f"{broken} of {read} lines are no JSON objects; {first}",
            where=str(path),
            hint="check that this is the raw file, one JSON object a line",
        )
    if broken:
        dropped[f"broken JSON line in {path.name}"] = broken


def _raw_data(
    log: _ReviewLog, metadata: Iterable[tuple[str, dict[str, Any]]], dropped: Counter[str], path: Path
) -> RawData:
    """The catalogue of reviewed items and the log over it; ``path`` is the review file, for errors."""
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
    return RawData(columns.finish(), log.interactions(columns.row, path), dropped)
