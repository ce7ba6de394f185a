"""A dataset, its manifest (sources, counts, what was dropped, digest of the content), and both in a folder.

Arrays are stored in safetensors, items and manifest in JSON; nothing is unpickled. The store provides
the folder, makes its appearance atomic and checks it when it is read.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.source_files import SourceFile
from genrec_unlearn_bench.data.splits import SplitParts
from genrec_unlearn_bench.tensors import read_tensors, write_tensors


class DatasetManifest(StrictModel):
    """Description of a prepared dataset. ``digest`` covers the canonical content, not the files."""

    name: str
    format: str
    """The reader: demo, folder, table, recbole, amazon-2018, minionerec, letter."""
    split: str
    """global-time, as-given or leave-one-out."""
    k_core: int
    """0 where no k-core filtering was done here."""
    items: int
    users: int
    interactions: int
    train: int
    valid: int
    test: int
    with_brand: int
    with_price: int
    dropped: dict[str, int]
    """Reason -> number of lines, items or interactions that were left out."""
    sources: tuple[SourceFile, ...]
    digest: str
    """blake2b-256 over items, examples and split, in hex."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Items and next-item examples in three parts; item and user ids are row numbers."""

    name: str
    items: ItemTable
    train: Examples
    valid: Examples
    test: Examples
    manifest: DatasetManifest


_SHARED = ("events", "event_users")
_TEXTS = {
    "item_id": "ids",
    "title": "titles",
    "description": "descriptions",
    "brand": "brands",
    "brand_raw": "brands_raw",
    "text": "texts",
}
"""Field of an item in ``items.jsonl`` -> column of ``ItemTable``."""
_FILES = ("manifest.json", "items.jsonl", "examples.safetensors")


def save_dataset(dataset: Dataset, folder: Path) -> None:
    """Write a dataset into ``folder``, which exists. OSErrors are the caller's to explain."""
    manifest, items, arrays = (folder / name for name in _FILES)
    with items.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in item_lines(dataset.items))
    tensors: dict[str, IntArray] = {}
    for name, part in zip(("train", "valid", "test"), (dataset.train, dataset.valid, dataset.test), strict=True):
        for field in ARRAYS:
            column = getattr(part, field)
            shared = field in _SHARED and column is getattr(dataset.train, field)
            tensors[field if shared else f"{name}.{field}"] = column
    write_tensors(tensors, arrays)
    manifest.write_text(dataset.manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def load_dataset(folder: Path) -> Dataset:
    """Read a dataset that ``save_dataset`` wrote; the store has checked every byte."""
    manifest = DatasetManifest.model_validate_json((folder / _FILES[0]).read_text(encoding="utf-8"))
    tensors: dict[str, IntArray] = read_tensors(folder / _FILES[2])
    columns = (
        {field: tensors[field if field in tensors else f"{part}.{field}"] for field in ARRAYS}
        for part in ("train", "valid", "test")
    )
    parts = SplitParts(*(Examples(**arrays) for arrays in columns))
    return Dataset(manifest.name, _items(folder / _FILES[1]), *parts, manifest)


def _items(path: Path) -> ItemTable:
    texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
    prices, categories = array("d"), list[tuple[str, ...]]()
    attributes: list[dict[str, tuple[str, ...]]] = []
    # Brands and lists of values repeat: each different one is kept once.
    seen: dict[Any, Any] = {}
    none: dict[str, tuple[str, ...]] = {}
    with path.open(encoding="utf-8", newline="\n") as stream:
        for record in map(json.loads, stream):
            for name, column in texts.items():
                column.append(seen.setdefault(record[name], record[name]) if "brand" in name else record[name])
            prices.append(math.nan if record["price"] is None else record["price"])
            categories.append(seen.setdefault(own := tuple(record["categories"]), own))
            found = record.get("attributes", none).items()
            attributes.append({name: seen.setdefault(own := tuple(values), own) for name, values in found} or none)
    columns: dict[str, Any] = {_TEXTS[name]: tuple(column) for name, column in texts.items()}
    names = dict.fromkeys(name for own in attributes for name in own)
    columns["attributes"] = {name: tuple(own.get(name, ()) for own in attributes) for name in names}
    return ItemTable(**columns, prices=np.array(prices, dtype=np.float64), categories=tuple(categories))


ARRAYS = ("users", "targets", "times", "events", "event_users", "starts", "ends")
"""The arrays of ``Examples``, in canonical order."""


_ENCODE = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""``json.dumps`` makes such an encoder anew for every call, which takes longer than the encoding."""


def item_lines(items: ItemTable) -> Iterator[str]:
    """One canonical JSON object for each item: sorted keys, no spaces, null for a missing price."""
    columns = {name: getattr(items, column) for name, column in _TEXTS.items()}
    for row, (price, categories) in enumerate(zip(items.prices.tolist(), items.categories, strict=True)):
        texts = {name: column[row] for name, column in columns.items()}
        # Only where there are any: the digests of datasets without attributes stay what they are.
        own = {name: values[row] for name, values in items.attributes.items() if values[row]}
        further = {"attributes": own} if own else {}
        price = None if math.isnan(price) else price
        yield _ENCODE({**texts, "categories": categories, "price": price, **further})


def content_digest(items: ItemTable, parts: SplitParts, split: str) -> str:
    """blake2b-256 over items, examples and split, in hex."""
    state = hashlib.blake2b(digest_size=32)
    state.update(f"split {split}\nitems {len(items)}\n".encode())
    for line in item_lines(items):
        state.update(line.encode())
        state.update(b"\n")
    for name, part in zip(("train", "valid", "test"), parts, strict=True):
        for field in ARRAYS:
            column = np.ascontiguousarray(getattr(part, field), dtype="<i8")
            state.update(f"{name} {field} {len(column)}\n".encode())
            state.update(column.data)
    return state.hexdigest()
