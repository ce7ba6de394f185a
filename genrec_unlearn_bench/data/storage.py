"""A prepared dataset in a folder: arrays in safetensors, items and manifest in JSON. Nothing is unpickled.

The caller provides the folder and makes its appearance atomic.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from genrec_unlearn_bench.data.dataset import Dataset, DatasetManifest
from genrec_unlearn_bench.data.digest import ARRAYS, content_digest, item_lines
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.splits import Parts
from genrec_unlearn_bench.errors import CorruptArtefact

__all__ = ["load_dataset", "save_dataset"]

_SHARED = ("events", "event_users")
_FILES = ("manifest.json", "items.jsonl", "examples.safetensors")


def save_dataset(dataset: Dataset, folder: Path) -> None:
    """Write a dataset into ``folder``, which exists. OSErrors are the caller's to explain."""
    from safetensors.numpy import save_file

    manifest, items, arrays = (folder / name for name in _FILES)
    with items.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in item_lines(dataset.items))
    tensors: dict[str, IntArray] = {}
    for name, part in (("train", dataset.train), ("valid", dataset.valid), ("test", dataset.test)):
        for field in ARRAYS:
            array = getattr(part, field)
            if field in _SHARED and array is getattr(dataset.train, field):
                tensors[field] = np.ascontiguousarray(array)
            else:
                tensors[f"{name}.{field}"] = np.ascontiguousarray(array)
    save_file(tensors, arrays)
    manifest.write_text(dataset.manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def load_dataset(folder: Path) -> Dataset:
    """Read a dataset that ``save_dataset`` wrote and check its digest.

    Raises:
        CorruptArtefact: a file is missing or broken, or the content does not match the manifest's digest.
    """
    try:
        manifest = DatasetManifest.model_validate_json((folder / _FILES[0]).read_text(encoding="utf-8"))
        items = _items(folder / _FILES[1])
        parts = _parts(folder / _FILES[2])
        digest = content_digest(items, parts, manifest.split)
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as fault:
        raise _corrupt(folder, f"{type(fault).__name__}: {fault}") from None
    if digest != manifest.digest:
        raise _corrupt(folder, f"its digest is {digest}, the manifest says {manifest.digest}")
    return Dataset(manifest.name, items, parts.train, parts.valid, parts.test, manifest)


def _items(path: Path) -> ItemTable:
    with path.open(encoding="utf-8", newline="\n") as stream:
        records = [json.loads(line) for line in stream]

    def column(name: str) -> tuple[str, ...]:
        return tuple(record[name] for record in records)

    prices = [float("nan") if record["price"] is None else record["price"] for record in records]
    return ItemTable(
        ids=column("item_id"),
        titles=column("title"),
        descriptions=column("description"),
        brands=column("brand"),
        brands_raw=column("brand_raw"),
        prices=np.asarray(prices, dtype=np.float64),
        categories=tuple(tuple(record["categories"]) for record in records),
        texts=column("text"),
    )


def _parts(path: Path) -> Parts:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors: dict[str, IntArray] = load_file(path)
    except SafetensorError as fault:
        raise ValueError(str(fault)) from None

    def part(name: str) -> Examples:
        return Examples(**{field: _array(tensors, name, field) for field in ARRAYS})

    return Parts(part("train"), part("valid"), part("test"))


def _array(tensors: dict[str, IntArray], part: str, field: str) -> IntArray:
    array = tensors[field] if field in tensors else tensors[f"{part}.{field}"]
    if array.dtype != np.int64 or array.ndim != 1:
        raise ValueError(f"{part}.{field} is no int64 vector")
    return array


def _corrupt(folder: Path, reason: str) -> CorruptArtefact:
    return CorruptArtefact(
        f"a stored dataset cannot be used: {reason}", where=str(folder), mend="remove the folder; it is made again"
    )
