"""Semantic IDs that other projects published: ``index.json``, one list of tokens like ``<a_236>`` for each item.

With them, our models can be held against published numbers without training a tokenizer. This floor knows no SID
tables; it hands on plain codes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.formats.lines import Faults, json_document

__all__ = ["MISSING_LEVEL", "read_index"]

MISSING_LEVEL = -1
"""Stands behind the last code of an item with fewer levels than the longest one."""

_TOKEN = re.compile(r"<([a-z])_([0-9]{1,9})>")


def read_index(path: Path, ids: Sequence[str], *, whole: bool = False) -> tuple[IntArray, tuple[int, ...]]:
    """The codes of the items ``ids``, in that order.

    The letter of a token names its level (a, b, c …); levels must come in order and without a gap.

    Args:
        whole: The index is to name these items and no others. Item numbers of two catalogues look alike, so an index
            of a larger one would otherwise pass.

    Returns:
        [N, L] codes, ``MISSING_LEVEL`` behind the end of shorter ones, and the L level sizes: one more than the largest
        code that occurs on each level.

    Raises:
        DataFault: an item without tokens, or tokens that are none; all of them at once.
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
