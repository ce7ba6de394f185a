"""The digest of a dataset's canonical content: the same for the same items, examples and split, whatever the files."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator

import numpy as np

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.splits import Parts

__all__ = ["ARRAYS", "content_digest", "item_lines"]

ARRAYS = ("users", "targets", "times", "events", "event_users", "starts", "ends")
"""The arrays of ``Examples``, in canonical order."""


_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""``json.dumps`` makes such an encoder anew for every call, which takes longer than the encoding."""


def item_lines(items: ItemTable) -> Iterator[str]:
    """One canonical JSON object for each item: sorted keys, no spaces, null for a missing price."""
    for row, item_id in enumerate(items.ids):
        price = float(items.prices[row])
        record = {
            "brand": items.brands[row],
            "brand_raw": items.brands_raw[row],
            "categories": items.categories[row],
            "description": items.descriptions[row],
            "item_id": item_id,
            "price": None if math.isnan(price) else price,
            "text": items.texts[row],
            "title": items.titles[row],
        }
        yield _ENCODE(record)


def content_digest(items: ItemTable, parts: Parts, split: str) -> str:
    """blake2b-256 over items, examples and split, in hex."""
    state = hashlib.blake2b(digest_size=32)
    state.update(f"split {split}\nitems {len(items)}\n".encode())
    for line in item_lines(items):
        state.update(line.encode())
        state.update(b"\n")
    for name, part in (("train", parts.train), ("valid", parts.valid), ("test", parts.test)):
        _add(state, name, part)
    return state.hexdigest()


def _add(state: hashlib.blake2b, name: str, part: Examples) -> None:
    for field in ARRAYS:
        array = np.ascontiguousarray(getattr(part, field), dtype="<i8")
        state.update(f"{name} {field} {len(array)}\n".encode())
        state.update(array.data)
