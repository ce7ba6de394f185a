"""Read a dataset of any format: rows of its files, through a mapping of their columns, into a catalogue and a log.

- ``folder``, to bring one's own catalogue in: ``items.jsonl`` with one object a line, beside it ``interactions.tsv`` or
  ``sequences.tsv`` (a user, a tab, and the user's items in order, separated by spaces).
- ``table``: columns as the dataset's YAML maps them. Without items the catalogue is what occurs.
- ``recbole``: atomic files. A ``token_seq`` is several values with spaces between them, titles alone are one text.
  Columns of items that are no field of ours become attributes (``class`` of MovieLens). Files of one split each hold
  examples: ``item_id_list`` is the history of the target ``item_id``.
- ``amazon-2018``: raw files of the McAuley lab, one JSON object a line. They are millions of lines long and somebody
  else's: lines that cannot be used are counted, and only a file that is mostly unusable is refused.
- ``minionerec``: ready-made examples in three csv files, taken as they are. There are no dates, and train rows may
  stand in any order, so ``times`` is the row's rank (train before valid before test).
- ``letter``: LETTER and LC-Rec. Without ``item.json`` the catalogue is that of ``index.json``, or else what occurs, and
  no concept can be named in it.

All but Amazon's are read strictly: what is broken is reported with file and line. Left out are only interactions with
items that the catalogue does not have, as long as they are the smaller part.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from genrec_unlearn_bench.data.catalogue import RESERVED_NAMES, Column, Columns, DatasetSpec, FileSpec
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.formats import records
from genrec_unlearn_bench.data.formats.lines import BrokenLine, Faults, Row, id_text, json_document, moment, read_lines
from genrec_unlearn_bench.data.items import ItemColumns, literal
from genrec_unlearn_bench.data.splits import GivenPart, GivenRows, Interactions, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

Files = Mapping[str, tuple[Path, ...]]
"""By role."""

UNKNOWN_ITEM = "interaction with an item that the catalogue does not have"
LARGEST_UNKNOWN_SHARE = 0.5
"""Above this share, the files do not belong together."""
_UNREAD_SHOWN = 20
"""Fields of items that nothing reads: so many are listed among what was dropped."""
_GIVEN = ("train", "valid", "test")
TWO_PASSES = 5
"""From this k-core on, interactions are read twice: of users and items that are too rare nothing stays in memory."""
CELLS = 1 << 24
"""Counters of the first pass, for users and for items; ids that share one are too many, never too few."""
_FIELDS = ("title", "description", "brand", "price", "categories", "text")

_OWN = Columns.model_validate(
    {
        "interactions": {"user": ["user", "user_id"], "item": ["item", "item_id"], "time": ["timestamp", "time"]},
        "items": {"id": "item_id", **{name: name for name in _FIELDS}},
    }
)
_COLUMNS = {
    "demo": _OWN,
    "folder": _OWN,
    "amazon-2018": Columns.model_validate(
        {
            "interactions": {"user": "reviewerID", "item": "asin", "time": "unixReviewTime"},
            # The 2014 files call the same field "categories".
            "items": {"id": "asin", **{name: name for name in _FIELDS[:4]}, "categories": ["category", "categories"]},
        }
    ),
    "minionerec": Columns.model_validate(
        {"interactions": {"user": "user_id", "item": "item_id", "history": "history_item_id"}}
    ),
}
"""Columns of the formats that have names of their own."""
_NOTES = {
    "demo": "synthetic: generated with seed 0; no item, brand or user is real",
    "minionerec": "rows as published, each with its own history; times are row ranks, as the source has no dates",
}
_HISTORY = "item_id_list"
_ATOMIC_LOG = {"user": "user_id", "item": "item_id", "time": "timestamp", "history": {"from": _HISTORY, "split": " "}}
_ATOMIC_ITEM = {
    **{name: name for name in ("title", "brand", "price", "categories", "description", "text")},
    "item_id": "id",
    "movie_title": "title",
    "name": "title",
    "item_name": "title",
    "category": "categories",
}
_ATTRIBUTE = re.compile("[a-z][a-z0-9_]{0,38}")


def read(files: Files, spec: DatasetSpec, progress: Progress) -> RawData:
    """Read the files of a dataset. Raises DataFault for rows that cannot be used, all of a file at once, or where most
    items are not in the catalogue."""
    reader = _Reader(files, spec, progress)
    given = "train" in files
    roles = _GIVEN if given else [role for role in ("interactions", "reviews", "sequences") if role in files]
    parts = {role: reader.rows_of_log(role) for role in roles}
    items = reader.catalogue()
    row_of = np.array([items.row.get(item_id, -1) for item_id in reader.items], dtype=np.int64)
    log: Interactions | GivenRows
    if given:
        log = GivenRows(*(reader.given_part(role, part, row_of) for role, part in parts.items()))
    else:
        ((role, part),) = parts.items()
        log = reader.interactions(role, part, row_of)
    notes = (_NOTES[spec.format],) if spec.format in _NOTES else ()
    if spec.format == "letter" and "items" not in files:
        notes = ("no item metadata: texts are item numbers, and no brand or price can be named",)
    return RawData(items.finish(), log, +reader.dropped, notes)


class _Part(NamedTuple):
    """M rows of a log: numbers of users and items, times, and histories one after the other with their lengths."""

    users: IntArray
    items: IntArray
    times: IntArray
    histories: IntArray
    lengths: IntArray


class _Reader:
    """Files of one dataset; users and items are numbered in the order in which the log names them first."""

    def __init__(self, files: Files, spec: DatasetSpec, progress: Progress) -> None:
        self.files, self.spec, self.progress = files, spec, progress
        self.dropped: Counter[str] = Counter()
        asked = _COLUMNS.get(spec.format, spec.columns)
        self.columns = _atomic_columns(files, spec, self.dropped) if spec.format == "recbole" else asked
        self.lenient = self.dropped if spec.format == "amazon-2018" else None
        self.users: dict[str, int] = {}
        self.items: dict[str, int] = {}
        self.twice = spec.k_core >= TWO_PASSES and "interactions" in files

    def rows_of_log(self, role: str) -> _Part:
        path = self.files[role][0]
        if role == "sequences":
            names = ["user", "item"]
            rows = records.sequence_documents(path) if self.spec.format == "letter" else _listings(path)
        else:
            names = [name for name in self.columns.interactions if name != ("time" if role in _GIVEN else "history")]
            rows = self._table(role, [column for name, column in self.columns.interactions.items() if name in names])
        users, items, times, histories, lengths = (array("q") for _ in range(5))
        faults, often, rare = Faults(path, records.HINT), self._often() if self.twice else None, 0
        dated: bool | None = None
        for file, line, cells in faults.usable(self.progress.track(role, rows)):
            row = dict(zip(names, cells, strict=True))
            (user, no_user), (item, no_item) = id_text(row["user"]), id_text(row["item"])
            time, is_date = moment(row["time"]) if "time" in row else (0, False)
            history = _item_list(row["history"]) if "history" in row else []
            if no_user or no_item:
                faults.add(file, line, f"the user {no_user}" if no_user else f"the item {no_item}")
            elif time is None:
                given = f"{row['time']!r:.40} is neither a whole number nor an ISO 8601 date"
                faults.add(file, line, f"the timestamp {'is missing' if row['time'] is None else given}")
            elif is_date != (dated := is_date if dated is None else dated):
                faults.add(file, line, f"the timestamp {row['time']!r:.40} is another kind than above: number or date")
            elif history is None:
                faults.add(file, line, "the history is no list of items")
            elif often is not None and not often(user, item):
                rare += 1
            else:
                users.append(self.users.setdefault(user, len(self.users)))
                items.append(self.items.setdefault(item, len(self.items)))
                times.append(time)
                histories.extend(self.items.setdefault(other, len(self.items)) for other in history)
                lengths.append(len(history))
        faults.check(self.lenient)
        if rare and not users:
            what = f"no interactions are left of {rare} after {self.spec.k_core}-core filtering"
            raise DataFault(what, where=str(path), hint="choose a smaller k")
        self.dropped[f"interaction of a user or an item with fewer than {self.spec.k_core}"] += rare
        return _Part(*(np.array(column, dtype=np.int64) for column in (users, items, times, histories, lengths)))

    def _often(self) -> Callable[[str, str], bool]:
        """Count users and items in a first pass: whether a user's row of an item may be in the k-core."""
        columns = [self.columns.interactions[name] for name in ("user", "item")]
        users, items, k = bytearray(CELLS), bytearray(CELLS), min(self.spec.k_core, 255)

        def cell(name: str) -> int:
            return crc32(name.encode("utf-8", "surrogatepass")) % CELLS

        for _, _, cells in self.progress.track("users and items", self._table("interactions", columns)):
            if not isinstance(cells, BrokenLine):
                for counts, value in zip((users, items), cells, strict=True):
                    place = cell(id_text(value)[0])
                    counts[place] = min(counts[place] + 1, k)
        return lambda user, item: users[cell(user)] == k == items[cell(item)]

    def catalogue(self) -> ItemColumns:
        """The items; where they have no file, those that occur. Lenient formats, and two passes, leave out others."""
        columns, unread = ItemColumns(self.dropped), Counter[str]()
        role = "meta" if "meta" in self.files else "items"
        if role not in self.files:
            occurring: Iterable[str] = json_document(self.files["index"][0]) if "index" in self.files else self.items
            for item_id in records.in_order(occurring) if self.spec.format == "letter" else occurring:
                columns.add(item_id)
            return columns
        path = self.files[role][0]
        names, rows = list(records.ITEM_FIELDS), records.item_documents(path)
        if self.spec.format not in ("minionerec", "letter"):
            asked = dict[str, Column]([*self.columns.items.items(), *self.columns.attributes.items()])
            names, rows = list(asked), self._table(role, asked.values(), unread)
        faults, places = Faults(path, records.HINT), list[str]()
        for file, place, cells in faults.usable(self.progress.track("items", rows)):
            fields: dict[str, Any] = dict(zip(names, cells, strict=True))
            item_id, why = id_text(fields.pop("id"))
            if why:
                faults.add(file, place, f"the item's id {why}")
            elif item_id in columns.row:
                faults.add(file, place, f"item {item_id!r} is in {places[columns.row[item_id]]} already")
            elif (self.twice or self.lenient is not None) and item_id not in self.items:
                outside = f"item outside the {self.spec.k_core}-core"
                self.dropped[outside if self.twice else "item without interactions"] += 1
            else:
                places.append(f"line {place}" if file == path else f"{file.name}:{place}")
                own = {name: fields.pop(name) for name in self.columns.attributes}
                columns.add(item_id, attributes=own, **fields)
        faults.check(self.lenient)
        for name, count in unread.most_common(_UNREAD_SHOWN) if self.columns is _OWN else ():
            self.dropped[f"field {name[:40]!r} of an item is not read"] += count
        return columns

    def _table(
        self, role: str, asked: Iterable[Column], unread: Counter[str] | None = None
    ) -> Iterator[Row[list[object]]]:
        file = next((file for file in self.spec.files if file.role == role), FileSpec(role=role, names=(role,)))
        return records.rows(self.files[role], file, list(asked), unread, strict=self.spec.format == "table")

    def interactions(self, role: str, part: _Part, row_of: IntArray) -> Interactions:
        """The rows with items that the catalogue has; ``row_of``: rows of the catalogue by number, -1 for none."""
        items = row_of[part.items]
        known = items >= 0
        self._count_unknown(role, int((~known).sum()), int(known.sum()), UNKNOWN_ITEM)
        dated = role != "sequences" and "time" in self.columns.interactions
        return Interactions(part.users[known], items[known], part.times[known] if dated else None)

    def given_part(self, role: str, part: _Part, row_of: IntArray) -> GivenPart:
        """The rows with targets, and with items in their histories, that the catalogue has."""
        targets, histories = row_of[part.items], row_of[part.histories]
        owners = np.repeat(np.arange(len(targets)), part.lengths)
        known = targets >= 0
        kept = known[owners] & (histories >= 0)
        lengths = np.bincount(owners[kept], minlength=len(targets)).astype(np.int64)
        whole = known & (lengths > 0)
        self.dropped["history item that the catalogue does not have"] += int((known[owners] & ~kept).sum())
        self.dropped[f"{role} row with an empty history"] += int((known & ~whole).sum())
        reason = f"{role} row with a target that the catalogue does not have"
        self._count_unknown(role, int((~known).sum()), int(whole.sum()), reason)
        return GivenPart(part.users[whole], targets[whole], histories[kept], lengths[whole])

    def _count_unknown(self, role: str, unknown: int, kept: int, reason: str) -> None:
        if unknown > LARGEST_UNKNOWN_SHARE * (unknown + kept):
            raise DataFault(
                f"{unknown} of {unknown + kept} interactions name items that the catalogue does not have",
                where=str(self.files[role][0]),
                hint="check that the items and the interactions belong together and spell item ids alike",
            )
        self.dropped[reason] += unknown


def _listings(path: Path) -> Iterator[Row[list[object]]]:
    """User and item of ``sequences.tsv``, which may have a header."""
    first_line: dict[str, int] = {}
    for place, (number, text) in enumerate(read_lines(path)):
        user, tab, listing = text.partition("\t")
        user = user.strip()
        if not tab or not user:
            yield path, number, BrokenLine("a user, a tab and items separated by spaces are expected")
        elif user in first_line:
            yield path, number, BrokenLine(f"user {user!r} is in line {first_line[user]} already")
        elif place or user not in ("user", "user_id") or listing.strip() not in ("items", "item_ids", "sequence"):
            first_line[user] = number
            for item in listing.split():
                yield path, number, [user, item]


def _item_list(value: object) -> list[str] | None:
    """The ids of a list, also of one written as JSON or as a Python literal; None where it is none."""
    if isinstance(value, str):
        try:
            # "[3112, 114]" is JSON as well, which is read far faster than a Python literal.
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = literal(value)
    found = [id_text(item) for item in value] if isinstance(value, list) else [("", "is no list")]
    return None if any(why for _, why in found) else [item_id for item_id, _ in found]


def _atomic_columns(files: Files, spec: DatasetSpec, dropped: Counter[str]) -> Columns:
    """What RecBole's names and types say; what ``columns`` of the dataset's YAML says goes before it."""
    asked, path = spec.columns, files["train" if "train" in files else "interactions"][0]
    log = records.atomic_types(path)
    if _HISTORY in log and "train" not in files:
        what = f"the column {_HISTORY} makes every line an example, which needs files of its split"
        raise DataFault(what, where=f"{path}:1", hint="give NAME.train.inter, NAME.valid.inter and NAME.test.inter")
    needed = {"user", "item", *(("history",) if "train" in files else ())}
    needed |= {"time"} if "timestamp" in log or spec.split == "global-time" else set()
    usual = {name: one for name, one in _ATOMIC_LOG.items() if name in needed}
    interactions = {name: Column.model_validate(one) for name, one in usual.items()} | asked.interactions
    items, attributes = dict[str, Column](), dict[str, Column]()
    named = {name for column in (*asked.items.values(), *asked.attributes.values()) for name in column.columns}
    for name, kind in records.atomic_types(files["items"][0]).items() if "items" in files else ():
        field, attribute = _ATOMIC_ITEM.get(name.lower()), re.sub(r"[^a-z0-9]", "_", name.lower())
        if field in asked.items or field in items:
            field = None
        between = " " if kind.endswith("_seq") and field not in ("title", "brand", "description", "text") else None
        column = Column.model_validate({"from": name, "split": between})
        if field is not None:
            items[field] = column
        elif name not in named and _ATTRIBUTE.fullmatch(attribute) and attribute not in {*attributes, *RESERVED_NAMES}:
            attributes[attribute] = column
        elif name not in named:
            dropped[f"column {name[:40]!r} of items is not read"] += 1
    given = {"items": {"id": "item_id"} | items | asked.items, "attributes": attributes | asked.attributes}
    return Columns.model_validate({"interactions": interactions, **given})
