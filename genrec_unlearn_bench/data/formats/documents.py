"""JSON documents of MiniOneRec, LETTER and LC-Rec: the catalogue, whole sequences, and published semantic IDs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.formats.lines import BrokenLine, Faults, Row, json_document, whole_number
from genrec_unlearn_bench.data.raw import literal

ITEM_FIELDS = ("id", "title", "description", "brand", "price", "categories")
MISSING_LEVEL = -1
"""Padding behind the last code of an item with fewer levels than the longest one."""

_TOKEN = re.compile(r"<([a-z])_([0-9]{1,9})>")


def in_order(ids: Iterable[str]) -> list[str]:
    """Item ids by their number; those that are none come first."""
    numbers = {item_id: whole_number(item_id) for item_id in ids}
    return sorted(numbers, key=lambda item_id: (-1 if (number := numbers[item_id]) is None else number, item_id))


def items(path: Path) -> Iterator[Row[list[object]]]:
    """The values of ``ITEM_FIELDS`` of an ``item.json`` (item number -> fields), in the order of the numbers."""
    document = json_document(path)
    for item_id in in_order(document):
        fields = document[item_id]
        if not isinstance(fields, dict):
            yield path, f"item {item_id!r}", BrokenLine("is no object")
            continue
        categories = literal(fields.get("categories"))
        if isinstance(categories, str):
            categories = [part.strip() for part in categories.split(",")]
        yield path, f"item {item_id!r}", [item_id, *(fields.get(name) for name in ITEM_FIELDS[1:-1]), categories]


def sequences(path: Path) -> Iterator[Row[list[object]]]:
    """User and item of an ``inter.json`` (user -> items in order)."""
    for user, listed in json_document(path).items():
        if not isinstance(listed, list):
            yield path, f"user {user!r}", BrokenLine("has no list of items")
            continue
        for item in listed:
            yield path, f"user {user!r}", [user, item]


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
    faults = Faults(path, "the index must belong to this catalogue; fetch both again")
    codes: list[list[int]] = []
    for item_id in ids:
        tokens = document.get(item_id)
        listed = tokens if isinstance(tokens, list) else []
        matches = [_TOKEN.fullmatch(token) if isinstance(token, str) else None for token in listed]
        row = [int(match[2]) for level, match in enumerate(matches) if match and match[1] == chr(ord("a") + level)]
        if not row or len(row) != len(listed):
            faults.add(path, f"item {item_id!r}", f"{tokens!r:.80} is no semantic ID like <a_1><b_2><c_3>")
        codes.append(row)
    if whole and len(document) > len(ids):
        faults.add(path, "index", f"it names {len(document)} items, and the catalogue has {len(ids)}")
    faults.check()
    table = np.full((len(codes), max(map(len, codes), default=0)), MISSING_LEVEL, dtype=np.int64)
    for index, row in enumerate(codes):
        table[index, : len(row)] = row
    return table, tuple(int(size) for size in table.max(axis=0, initial=MISSING_LEVEL) + 1)
