"""The plain folder, the format to bring one's own catalogue in.

``items.jsonl`` has one object a line with ``item_id`` and, where known, ``title``, ``description``, ``brand``,
``price``, ``categories`` (a list) and ``text``. Beside it stands either ``interactions.tsv`` with a header naming
``user``, ``item`` and ``timestamp`` (any order, further columns are passed over), or ``sequences.tsv`` with a user, a
tab, and the user's items in order, separated by spaces. All may be gzipped.

This reader is strict: what is broken in a file that somebody made for this suite is reported, not skipped. The only
lines it leaves out are those whose item the catalogue does not have, as long as they are the smaller part.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.data.formats.lines import (
    BrokenLine,
    Faults,
    Row,
    as_int64,
    column_places,
    json_object,
    moment,
    read_lines,
)
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.raw import Interactions, ItemColumns, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

UNKNOWN_ITEM = "interaction with an item that the catalogue does not have"
LARGEST_UNKNOWN_SHARE = 0.5
"""Above this share, the two files do not belong together."""

_FIELDS = ("title", "description", "brand", "price", "categories", "text")
_NAMES = {
    "user": ("user", "user_id", "userid"),
    "item": ("item", "item_id", "itemid"),
    "timestamp": ("timestamp", "time"),
}


def read(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read the folder; roles ``items`` and one of ``interactions`` and ``sequences``."""
    dropped: Counter[str] = Counter()
    rows, items = _items(files["items"], dropped, progress)
    if "interactions" in files:
        return RawData(items, _interactions(files["interactions"], rows, dropped, progress), dropped)
    listed = progress.track("sequences", _listings(files["sequences"]))
    return RawData(items, sequences(listed, rows, dropped, files["sequences"]), dropped)


def read_demo(progress: Progress) -> RawData:
    """The dataset ``demo`` that ships: 400 items of 40 brands, some 13,500 interactions of 1,500 users.

    Synthetic, made by ``tests/data/demo_world.py``, which says what in it imitates real catalogues.
    """
    with resources.as_file(resources.files("genrec_unlearn_bench.tasks") / "datasets" / "demo") as place:
        names = {"items": "items.jsonl.gz", "interactions": "interactions.tsv.gz"}
        raw = read({role: place / name for role, name in names.items()}, progress)
    return replace(raw, notes=("synthetic: generated with seed 0; no item, brand or user is real",))


def count_unknown(unknown: int, kept: int, dropped: Counter[str], path: Path, reason: str = UNKNOWN_ITEM) -> None:
    """Count interactions with items that the catalogue does not have; raises DataFault where they are the most."""
    if unknown > LARGEST_UNKNOWN_SHARE * (unknown + kept):
        raise DataFault(
            f"{unknown} of {unknown + kept} interactions name items that the catalogue does not have",
            where=str(path),
            hint="check that the items and the interactions belong together and spell item ids alike",
        )
    if unknown:
        dropped[reason] += unknown


def count_unread(record: Mapping[str, object], known: Collection[str], dropped: Counter[str]) -> None:
    """Count the fields of an item that nothing reads, by name; the twenty that come first have their own line."""
    for name in record:
        if name not in known:
            reason = f"field {name[:40]!r} of an item is not read"
            many = reason not in dropped and sum(each.endswith("of an item is not read") for each in dropped) >= 20
            dropped["further fields of items are not read" if many else reason] += 1


def sequences(
    listed: Iterable[Sequence[str]], rows: Mapping[str, int], dropped: Counter[str], path: Path
) -> Interactions:
    """The log of one list of item ids for each user, in order, over the rows of the items that are known."""
    items, lengths, unknown = array("q"), array("q"), 0
    for names in listed:
        known = [row for name in names if (row := rows.get(name)) is not None]
        unknown += len(names) - len(known)
        items.extend(known)
        lengths.append(len(known))
    count_unknown(unknown, len(items), dropped, path)
    counts = as_int64(lengths)
    if empty := int((counts == 0).sum()):
        dropped["user without any known item"] = empty
    return Interactions(np.repeat(np.arange(len(counts), dtype=np.int64), counts), as_int64(items), None)


def _items(path: Path, dropped: Counter[str], progress: Progress) -> tuple[dict[str, int], ItemTable]:
    def listed() -> Iterator[Row[Mapping[str, object]]]:
        for number, text in progress.track("items", read_lines(path)):
            try:
                record = json_object(text)
            except BrokenLine as fault:
                yield path, number, fault
            else:
                count_unread(record, {"item_id", *_FIELDS}, dropped)
                yield path, number, {name: record.get(name) for name in ("item_id", *_FIELDS)}

    return read_items(
        listed(), dropped, path, "every line is one JSON object with its own item_id; see `bench data import --help`"
    )


def read_items(
    listed: Iterable[Row[Mapping[str, object]]], dropped: Counter[str], where: Path, hint: str
) -> tuple[dict[str, int], ItemTable]:
    """(row by id, table) of records with ``item_id`` and the fields of ``ItemColumns.add``.

    Raises:
        DataFault: Records without an id of their own, all at once.
    """
    columns = ItemColumns(dropped)
    faults = Faults()
    places: list[str] = []
    for path, number, record in listed:
        if isinstance(record, BrokenLine):
            faults.add(path, number, str(record))
            continue
        fields: dict[str, Any] = dict(record)
        item_id, why = id_text(fields.pop("item_id"))
        if why:
            faults.add(path, number, f"the item's id {why}")
        elif item_id in columns.row:
            faults.add(path, number, f"item {item_id!r} is in {places[columns.row[item_id]]} already")
        else:
            places.append(f"line {number}" if path == where else f"{path.name}:{number}")
            columns.add(item_id, **fields)
    faults.check(where, hint)
    return columns.row, columns.finish()


def id_text(value: object) -> tuple[str, str]:
    """(an id as text, "") or ("", what is wrong with it)."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return "", "is empty"
    if isinstance(value, str):
        return value.strip(), ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value), ""
    return "", f"is neither text nor a whole number ({value!r:.40})"


def _interactions(path: Path, rows: Mapping[str, int], dropped: Counter[str], progress: Progress) -> Interactions:
    lines = read_lines(path)
    # RecBole's files write "user_id:token"; the type behind the colon is of no use here.
    header = [cell.split(":")[0].strip().lower() for cell in next(lines)[1].split("\t")]
    places = column_places(header, _NAMES, path)
    width = max(places) + 1

    def listed() -> Iterator[Row[Sequence[object]]]:
        for number, text in progress.track("interactions", lines):
            cells = text.split("\t")
            few = BrokenLine(f"{len(cells)} columns, {width} are needed")
            yield path, number, few if len(cells) < width else tuple(cells[place] for place in places)

    hint = "tab-separated columns user, item and timestamp, a whole number (seconds)"
    return read_log(listed(), rows, dropped, path, hint)


def read_log(
    listed: Iterable[Row[Sequence[object]]],
    rows: Mapping[str, int],
    dropped: Counter[str],
    where: Path,
    hint: str,
    *,
    dated: bool = True,
) -> Interactions:
    """The log of rows (user, item, time) or, undated and in order, (user, item).

    Raises:
        DataFault: Rows that cannot be used, all at once, or mostly items that the catalogue does not have.
    """
    users, items, moments = array("q"), array("q"), array("q")
    numbers: dict[str, int] = {}
    faults = Faults()
    unknown = 0
    for path, number, cells in listed:
        if isinstance(cells, BrokenLine):
            faults.add(path, number, str(cells))
            continue
        (user, no_user), (item, no_item) = id_text(cells[0]), id_text(cells[1])
        time = moment(cells[2]) if dated else 0
        if no_user or no_item or time is None:
            what = f"the timestamp {cells[-1]!r:.40} is not a whole number"
            faults.add(path, number, f"the user {no_user}" if no_user else f"the item {no_item}" if no_item else what)
            continue
        row = rows.get(item)
        if row is None:
            unknown += 1
            continue
        users.append(numbers.setdefault(user, len(numbers)))
        items.append(row)
        moments.append(time)
    faults.check(where, hint)
    count_unknown(unknown, len(users), dropped, where)
    return Interactions(as_int64(users), as_int64(items), as_int64(moments) if dated else None)


def _listings(path: Path) -> Iterator[list[str]]:
    """The item ids of each user; raises DataFault at the end where a line is broken."""
    first_line: dict[str, int] = {}
    faults = Faults()
    for number, text in read_lines(path):
        user, tab, listing = text.partition("\t")
        user = user.strip()
        if not tab or not user:
            faults.add(path, number, "a user, a tab and items separated by spaces are expected")
        elif user in first_line:
            faults.add(path, number, f"user {user!r} is in line {first_line[user]} already")
        elif number > 1 or user not in _NAMES["user"] or listing.strip() not in ("items", "item_ids", "sequence"):
            first_line[user] = number
            yield listing.split()
    faults.check(path, "one line for each user: the user, a tab, and the item ids in order")
