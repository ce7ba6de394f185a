"""LETTER's and LC-Rec's layout: ``inter.json`` with one whole sequence for each user, beside it ``index.json`` (their
own semantic IDs) and, for some sets, ``item.json``.

Without ``item.json`` the catalogue is that of ``index.json``, or else the items that occur, and there is no metadata:
such a set trains a recommender, but no concept can be named in it.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.formats.columns import ItemColumns
from genrec_unlearn_bench.data.formats.folder import UNKNOWN_ITEM, check_unknown
from genrec_unlearn_bench.data.formats.lines import Faults, as_int64, by_number, json_document, whole_number
from genrec_unlearn_bench.data.formats.minionerec import add_items_document
from genrec_unlearn_bench.data.raw import Interactions, RawData
from genrec_unlearn_bench.progress import Progress


def read(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read ``sequences`` (inter.json) and, where they are there, ``items`` and ``index``."""
    dropped: Counter[str] = Counter()
    columns = ItemColumns(dropped)
    users = _document(files["sequences"])
    notes: tuple[str, ...] = ()
    if "items" in files:
        add_items_document(columns, files["items"])
    else:
        occurring = (item for items in users for item in items)
        for item_id in sorted(set(json_document(files["index"]) if "index" in files else occurring), key=by_number):
            columns.add(item_id)
        notes = ("no item metadata: texts are item numbers, and no brand or price can be named",)
    rows, lengths = array("q"), array("q")
    for items in progress.track("sequences", users):
        known = [row for item in items if (row := columns.row.get(item)) is not None]
        rows.extend(known)
        lengths.append(len(known))
    unknown = sum(map(len, users)) - len(rows)
    check_unknown(unknown, len(rows), files["sequences"])
    if unknown:
        dropped[UNKNOWN_ITEM] = unknown
    owners = np.repeat(np.arange(len(lengths), dtype=np.int64), as_int64(lengths))
    return RawData(columns.finish(), Interactions(owners, as_int64(rows), None), dropped, notes)


def _document(path: Path) -> list[list[str]]:
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
