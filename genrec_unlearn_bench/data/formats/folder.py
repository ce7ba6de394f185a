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
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data.formats.columns import ItemColumns
from genrec_unlearn_bench.data.formats.lines import BrokenLine, Faults, as_int64, json_object, read_lines, whole_number
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.raw import Interactions, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

UNKNOWN_ITEM = "interaction with an item that the catalogue does not have"
LARGEST_UNKNOWN_SHARE = 0.5
"""Above this share, the two files do not belong together."""

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
    return RawData(items, _sequences(files["sequences"], rows, dropped, progress), dropped)


def read_demo(progress: Progress) -> RawData:
    """The dataset ``demo`` that ships: 400 items of 40 brands, some 13,500 interactions of 1,500 users.

    Synthetic, made by ``tests/data/demo_world.py``, which says what in it imitates real catalogues.
    """
    with resources.as_file(resources.files("genrec_unlearn_bench.tasks") / "datasets" / "demo") as place:
        names = {"items": "items.jsonl.gz", "interactions": "interactions.tsv.gz"}
        raw = read({role: place / name for role, name in names.items()}, progress)
    return replace(raw, notes=("synthetic: generated with seed 0; no item, brand or user is real",))


def check_unknown(unknown: int, kept: int, path: Path) -> None:
    """Raise DataFault where most interactions name items that the catalogue does not have."""
    if unknown > LARGEST_UNKNOWN_SHARE * (unknown + kept):
        raise DataFault(
            f"{unknown} of {unknown + kept} interactions name items that the catalogue does not have",
            where=str(path),
            hint="check that the items and the interactions belong together and spell item ids alike",
        )


def _items(path: Path, dropped: Counter[str], progress: Progress) -> tuple[dict[str, int], ItemTable]:
    columns = ItemColumns(dropped)
    faults = Faults()
    lines = array("q")
    for number, text in progress.track("items", read_lines(path)):
        try:
            record = json_object(text)
        except BrokenLine as fault:
            faults.add(path, number, str(fault))
            continue
        value = record.get("item_id")
        item_id = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if not item_id:
            faults.add(path, number, "no item_id" if "item_id" not in record else "item_id is empty or not a text")
        elif item_id in columns.row:
            faults.add(path, number, f"item_id {item_id!r} is in line {lines[columns.row[item_id]]} already")
        else:
            lines.append(number)
            fields = ("title", "description", "brand", "price", "categories", "text")
            columns.add(item_id, **{name: record.get(name) for name in fields})
    faults.check(path, "every line is one JSON object with its own item_id; see `bench data import --help`")
    return columns.row, columns.finish()


def _interactions(path: Path, rows: Mapping[str, int], dropped: Counter[str], progress: Progress) -> Interactions:
    users, items, moments = array("q"), array("q"), array("q")
    numbers: dict[str, int] = {}
    faults = Faults()
    unknown = 0
    lines = read_lines(path)
    user_at, item_at, time_at = places = _columns(next(lines)[1], path)
    width = max(places) + 1
    for number, text in progress.track("interactions", lines):
        cells = text.split("\t")
        if len(cells) < width:
            faults.add(path, number, f"{len(cells)} columns, {width} are needed")
            continue
        time = whole_number(cells[time_at])
        user = cells[user_at].strip()
        if time is None or not user:
            what = f"the timestamp {cells[time_at]!r} is not a whole number" if user else "the user is empty"
            faults.add(path, number, what)
            continue
        row = rows.get(cells[item_at].strip())
        if row is None:
            unknown += 1
            continue
        users.append(numbers.setdefault(user, len(numbers)))
        items.append(row)
        moments.append(time)
    faults.check(path, "tab-separated columns user, item and timestamp, a whole number (seconds)")
    check_unknown(unknown, len(users), path)
    if unknown:
        dropped[UNKNOWN_ITEM] = unknown
    return Interactions(as_int64(users), as_int64(items), as_int64(moments))


def _columns(header: str, path: Path) -> tuple[int, int, int]:
    # RecBole's files write "user_id:token"; the type behind the colon is of no use here.
    cells = [cell.split(":")[0].strip().lower() for cell in header.split("\t")]
    places = {
        role: next((index for index, name in enumerate(cells) if name in spellings), None)
        for role, spellings in _NAMES.items()
    }
    missing = [role for role, place in places.items() if place is None]
    if missing:
        raise DataFault(
            f"missing column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; the first line is {header[:80]!r}",
            where=f"{path}:1",
            hint="the first line names the columns, separated by tabs: user, item, timestamp",
        )
    user, item, timestamp = (place or 0 for place in places.values())
    return user, item, timestamp


def _sequences(path: Path, rows: Mapping[str, int], dropped: Counter[str], progress: Progress) -> Interactions:
    items, lengths = array("q"), array("q")
    first_line: dict[str, int] = {}
    faults = Faults()
    unknown = 0
    for number, text in progress.track("sequences", read_lines(path)):
        user, tab, listing = text.partition("\t")
        user = user.strip()
        if not tab or not user:
            faults.add(path, number, "a user, a tab and items separated by spaces are expected")
        elif user in first_line:
            faults.add(path, number, f"user {user!r} is in line {first_line[user]} already")
        elif number == 1 and user in _NAMES["user"] and listing.strip() in ("items", "item_ids", "sequence"):
            continue
        else:
            first_line[user] = number
            listed = listing.split()
            known = [row for name in listed if (row := rows.get(name)) is not None]
            unknown += len(listed) - len(known)
            items.extend(known)
            lengths.append(len(known))
    faults.check(path, "one line for each user: the user, a tab, and the item ids in order")
    check_unknown(unknown, len(items), path)
    if unknown:
        dropped[UNKNOWN_ITEM] = unknown
    counts = as_int64(lengths)
    if empty := int((counts == 0).sum()):
        dropped["user without any known item"] = empty
    return Interactions(np.repeat(np.arange(len(counts), dtype=np.int64), counts), as_int64(items), None)
