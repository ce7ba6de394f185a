"""MiniOneRec's published files: ready-made examples in three csv files, and the catalogue beside them.

The csv's list columns are Python literals; they are parsed as literals and never evaluated. Rows are taken as they are:
no filtering, no other split. There are no dates, and train rows may stand in any order, so ``times`` is the row's rank
(train before valid before test). Titles come from ``item.json``, or from ``info`` where that is all there is.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from genrec_unlearn_bench.data.formats.columns import ItemColumns, literal
from genrec_unlearn_bench.data.formats.folder import check_unknown
from genrec_unlearn_bench.data.formats.lines import Faults, as_int64, by_number, json_document, read_lines, whole_number
from genrec_unlearn_bench.data.raw import GivenPart, GivenRows, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

_COLUMNS = ("user_id", "history_item_id", "item_id")
_LONGEST_CELL = 10_000_000
"""Characters; the csv module's own 131,072 are too few for long histories of titles."""


def read(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read ``train``, ``valid``, ``test`` and one of ``items`` (item.json) and ``info`` (tab-separated)."""
    dropped: Counter[str] = Counter()
    columns = ItemColumns(dropped)
    if "items" in files:
        add_items_document(columns, files["items"])
    else:
        _add_info(columns, files["info"], progress)
    users: dict[str, int] = {}
    parts = [_part(files[name], name, columns.row, users, dropped, progress) for name in ("train", "valid", "test")]
    notes = ("rows as published, each with its own history; times are row ranks, as the source has no dates",)
    return RawData(columns.finish(), GivenRows(*parts), dropped, notes)


def add_items_document(columns: ItemColumns, path: Path) -> None:
    """Append the items of an ``item.json`` (item number -> fields) in the order of their numbers."""
    document = json_document(path)
    for item_id in sorted(document, key=by_number):
        fields = document[item_id]
        if not isinstance(fields, dict):
            raise DataFault(f"item {item_id!r} is no object", where=str(path), hint="fetch the file again")
        columns.add(
            item_id,
            title=fields.get("title"),
            description=fields.get("description"),
            brand=fields.get("brand"),
            price=fields.get("price"),
            categories=_categories(fields.get("categories")),
        )


def _categories(value: object) -> object:
    value = literal(value)
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


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
    owners, targets, histories, lengths = array("q"), array("q"), array("q"), array("q")
    faults = Faults()
    unknown = 0
    previous = csv.field_size_limit(_LONGEST_CELL)
    try:
        # csv cells may hold line breaks, so the reader gets its line ends back.
        reader = csv.reader(f"{text}\n" for _, text in progress.track(part, read_lines(path)))
        user_at, history_at, item_at = _places(next(reader), path)
        for cells in reader:
            if len(cells) <= max(user_at, history_at, item_at):
                faults.add(path, reader.line_num, f"{len(cells)} columns are too few")
                continue
            history = _item_list(cells[history_at])
            if history is None:
                faults.add(path, reader.line_num, "history_item_id is no list of item numbers")
                continue
            target = rows.get(cells[item_at].strip())
            if target is None:
                unknown += 1
                continue
            known = [row for item in history if (row := rows.get(item)) is not None]
            if len(known) < len(history):
                dropped["history item that the catalogue does not have"] += len(history) - len(known)
            if not known:
                dropped[f"{part} row with an empty history"] += 1
                continue
            owners.append(users.setdefault(cells[user_at], len(users)))
            targets.append(target)
            histories.extend(known)
            lengths.append(len(known))
    except csv.Error as fault:
        raise DataFault(f"not a csv file: {fault}", where=f"{path}, after row {len(targets)}") from None
    finally:
        csv.field_size_limit(previous)
    faults.check(path, f"columns {', '.join(_COLUMNS)} are needed")
    check_unknown(unknown, len(targets), path)
    if unknown:
        dropped[f"{part} row with a target that the catalogue does not have"] = unknown
    return GivenPart(as_int64(owners), as_int64(targets), as_int64(histories), as_int64(lengths))


def _places(header: list[str], path: Path) -> tuple[int, int, int]:
    if missing := [name for name in _COLUMNS if name not in header]:
        what = f"missing column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        hint = f"the first line names the columns, among them {', '.join(_COLUMNS)}"
        raise DataFault(what, where=f"{path}:1", hint=hint)
    user, history, item = (header.index(name) for name in _COLUMNS)
    return user, history, item


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
