"""Published files of MiniOneRec, and of LETTER and LC-Rec: the same catalogue and semantic IDs, two kinds of logs.

MiniOneRec: ready-made examples in three csv files. Their list columns are Python literals; they are parsed as literals
and never evaluated. Rows are taken as they are: no filtering, no other split. There are no dates, and train rows may
stand in any order, so ``times`` is the row's rank (train before valid before test). Titles come from ``item.json``, or
from ``info`` where that is all there is.

LETTER and LC-Rec: ``inter.json`` with one whole sequence for each user, beside it ``index.json`` (their own semantic
IDs) and, for some sets, ``item.json``. Without ``item.json`` the catalogue is that of ``index.json``, or else the items
that occur, and there is no metadata: such a set trains a recommender, but no concept can be named in it.
"""

from __future__ import annotations

import csv
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.formats.folder import count_unknown, id_text, sequences
from genrec_unlearn_bench.data.formats.lines import (
    BrokenLine,
    Faults,
    Row,
    as_int64,
    by_number,
    column_places,
    json_document,
    read_lines,
    whole_number,
)
from genrec_unlearn_bench.data.raw import GivenPart, GivenRows, ItemColumns, RawData, literal
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

_COLUMNS = {name: (name,) for name in ("user_id", "history_item_id", "item_id")}
_LONGEST_CELL = 10_000_000
"""Characters; the csv module's own 131,072 are too few for long histories of titles."""


def read(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read ``train``, ``valid``, ``test`` and one of ``items`` (item.json) and ``info`` (tab-separated)."""
    dropped: Counter[str] = Counter()
    columns = ItemColumns(dropped)
    if "items" in files:
        _add_items(columns, files["items"])
    else:
        _add_info(columns, files["info"], progress)
    users: dict[str, int] = {}
    parts = [_part(files[name], name, columns.row, users, dropped, progress) for name in ("train", "valid", "test")]
    notes = ("rows as published, each with its own history; times are row ranks, as the source has no dates",)
    return RawData(columns.finish(), GivenRows(*parts), dropped, notes)


def _add_items(columns: ItemColumns, path: Path) -> None:
    """Append the items of an ``item.json`` (item number -> fields) in the order of their numbers."""
    document = json_document(path)
    for item_id in sorted(document, key=by_number):
        fields = document[item_id]
        if not isinstance(fields, dict):
            raise DataFault(f"item {item_id!r} is no object", where=str(path), hint="fetch the file again")
        categories = literal(fields.get("categories"))
        if isinstance(categories, str):
            categories = [part.strip() for part in categories.split(",")]
        texts = {name: fields.get(name) for name in ("title", "description", "brand", "price")}
        columns.add(item_id, **texts, categories=categories)


def _add_info(columns: ItemColumns, path: Path, progress: Progress) -> None:
    titles: dict[str, str] = {}
    faults = Faults()
    for number, text in progress.track("items", read_lines(path)):
        cells = text.split("\t")
        if len(cells) < 3 or whole_number(cells[-1]) is None:
            faults.add(path, number, "semantic ID, title and item number are expected, separated by tabs")
        else:
            titles.setdefault(cells[-1].strip(), " ".join(cells[1:-1]))
    faults.check(path, "fetch the file again")
    for item_id in sorted(titles, key=by_number):
        columns.add(item_id, title=titles[item_id])


def _part(
    path: Path, part: str, rows: Mapping[str, int], users: dict[str, int], dropped: Counter[str], progress: Progress
) -> GivenPart:
    previous = csv.field_size_limit(_LONGEST_CELL)
    # csv cells may hold line breaks, so the reader gets its line ends back.
    reader = csv.reader(f"{text}\n" for _, text in progress.track(part, read_lines(path)))

    def listed() -> Iterator[Row[Sequence[object]]]:
        user_at, history_at, item_at = places = column_places(next(reader), _COLUMNS, path)
        for cells in reader:
            few = BrokenLine(f"{len(cells)} columns are too few")
            asked = (
                few if len(cells) <= max(places) else (cells[user_at], cells[item_at], _item_list(cells[history_at]))
            )
            yield path, reader.line_num, asked

    try:
        return given_part(listed(), path, part, rows, users, dropped)
    except csv.Error as fault:
        raise DataFault(f"not a csv file: {fault}", where=f"{path}, after line {reader.line_num}") from None
    finally:
        csv.field_size_limit(previous)


def given_part(
    listed: Iterable[Row[Sequence[object]]],
    path: Path,
    part: str,
    rows: Mapping[str, int],
    users: dict[str, int],
    dropped: Counter[str],
) -> GivenPart:
    """Examples of rows (user, item, history); ``users`` is shared between the parts.

    Raises:
        DataFault: Rows that cannot be used, all at once, or mostly items that the catalogue does not have.
    """
    owners, targets, histories, lengths = array("q"), array("q"), array("q"), array("q")
    faults = Faults()
    unknown = 0
    for place, number, cells in listed:
        if isinstance(cells, BrokenLine):
            faults.add(place, number, str(cells))
            continue
        (user, no_user), (item, no_item), history = id_text(cells[0]), id_text(cells[1]), cells[2]
        if no_user or no_item or not isinstance(history, list):
            what = "the history is no list of items"
            faults.add(place, number, f"the user {no_user}" if no_user else f"the item {no_item}" if no_item else what)
            continue
        target = rows.get(item)
        if target is None:
            unknown += 1
            continue
        known = [row for other in history if (row := rows.get(id_text(other)[0])) is not None]
        if len(known) < len(history):
            dropped["history item that the catalogue does not have"] += len(history) - len(known)
        if not known:
            dropped[f"{part} row with an empty history"] += 1
            continue
        owners.append(users.setdefault(user, len(users)))
        targets.append(target)
        histories.extend(known)
        lengths.append(len(known))
    faults.check(path, "a user, an item and the list of items before it are needed")
    count_unknown(unknown, len(targets), dropped, path, f"{part} row with a target that the catalogue does not have")
    return GivenPart(as_int64(owners), as_int64(targets), as_int64(histories), as_int64(lengths))


def _item_list(cell: str) -> list[str] | None:
    try:
        # "[3112, 114]" is JSON as well, which is read far faster than a Python literal.
        value = json.loads(cell)
    except (ValueError, RecursionError):
        value = literal(cell)
    if not isinstance(value, list):
        return None
    numbers = [whole_number(item) for item in value]
    return None if None in numbers else [str(number) for number in numbers]


def read_letter(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read ``sequences`` (inter.json) and, where they are there, ``items`` and ``index``."""
    dropped: Counter[str] = Counter()
    columns = ItemColumns(dropped)
    users = _item_lists(files["sequences"])
    notes: tuple[str, ...] = ()
    if "items" in files:
        _add_items(columns, files["items"])
    else:
        occurring = (item for items in users for item in items)
        for item_id in sorted(set(json_document(files["index"]) if "index" in files else occurring), key=by_number):
            columns.add(item_id)
        notes = ("no item metadata: texts are item numbers, and no brand or price can be named",)
    log = sequences(progress.track("sequences", users), columns.row, dropped, files["sequences"])
    return RawData(columns.finish(), log, dropped, notes)


def _item_lists(path: Path) -> list[list[str]]:
    """One list of item numbers, as text, for each user, in the file's order."""
    users: list[list[str]] = []
    faults = Faults()
    for user, items in json_document(path).items():
        numbers = [whole_number(item) for item in items] if isinstance(items, list) else [None]
        if None in numbers:
            faults.add(path, None, f"user {user!r} has no list of item numbers")
        else:
            users.append([str(number) for number in numbers])
    faults.check(path, "one list of item numbers for each user is expected; fetch the file again")
    return users


MISSING_LEVEL = -1
"""Padding behind the last code of an item with fewer levels than the longest one."""

_TOKEN = re.compile(r"<([a-z])_([0-9]{1,9})>")


def read_index(path: Path, ids: Sequence[str], *, whole: bool = False) -> tuple[IntArray, tuple[int, ...]]:
    """Read the codes of the items ``ids``, in that order; the letter of a token names its level (a, b, c …).

    Args:
        whole: The index must name no other items. Item numbers of two catalogues look alike, so an index of a larger
            one would otherwise pass.

    Returns:
        [N, L] codes, ``MISSING_LEVEL`` behind the end of shorter ones, and the L level sizes: one more than the largest
        code that occurs on each level.

    Raises:
        DataFault: an item without tokens, or tokens that are none or skip a level; all of them at once.
    """
    document = json_document(path)
    faults = Faults()
    codes: list[list[int]] = []
    for item_id in ids:
        tokens = document.get(item_id)
        if not isinstance(tokens, list) or not tokens:
            faults.add(path, None, f"item {item_id!r} has no semantic ID")
            continue
        matches = [_TOKEN.fullmatch(token) if isinstance(token, str) else None for token in tokens]
        row = [int(match[2]) for level, match in enumerate(matches) if match and match[1] == chr(ord("a") + level)]
        if len(row) != len(tokens):
            faults.add(path, None, f"item {item_id!r}: {tokens!r:.80} is no semantic ID like <a_1><b_2><c_3>")
        codes.append(row)
    if whole and len(document) > len(ids):
        faults.add(path, None, f"it names {len(document)} items, and the catalogue has {len(ids)}")
    faults.check(path, "the index must belong to this catalogue; fetch both again")
    depth = max((len(row) for row in codes), default=0)
    table = np.full((len(codes), depth), MISSING_LEVEL, dtype=np.int64)
    for index, row in enumerate(codes):
        table[index, : len(row)] = row
    return table, tuple(int(size) for size in table.max(axis=0, initial=MISSING_LEVEL) + 1)
