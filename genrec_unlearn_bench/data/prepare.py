"""Prepare a dataset from its files: locate, read, clean, filter, split, and count what was dropped.

The outcome depends on the content of the files and on the specification alone, to the byte.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from genrec_unlearn_bench.data.cleaning import clean, first_appearance
from genrec_unlearn_bench.data.dataset import Dataset, DatasetManifest
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.locate import Located, locate
from genrec_unlearn_bench.data.raw import GivenRows, Interactions, RawData, Sequences
from genrec_unlearn_bench.data.spec import DatasetSpec, FormatName, check_spec
from genrec_unlearn_bench.data.splits import SplitParts, as_given, global_time, leave_one_out
from genrec_unlearn_bench.data.storage import content_digest
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

__all__ = ["Reader", "prepare", "prepare_located", "reader"]


class Reader(Protocol):
    """Turn the files of one format, by role, into ``RawData``; raises DataFault for input it cannot use."""

    def __call__(self, files: Mapping[str, Path], progress: Progress) -> RawData: ...


_READERS: dict[FormatName, tuple[str, str]] = {
    "folder": ("folder", "read"),
    "amazon-2018": ("amazon", "read_2018"),
    "amazon-2023": ("amazon", "read_2023"),
    "minionerec": ("minionerec", "read"),
    "letter": ("letter", "read"),
}
"""Module and function by format; imported when they are needed."""


def reader(format_name: FormatName) -> Reader:
    """The reader of a format that consists of files (all but ``demo``)."""
    module, function = _READERS[format_name]
    return cast(Reader, getattr(importlib.import_module(f"genrec_unlearn_bench.data.formats.{module}"), function))


def prepare(spec: DatasetSpec, data_dir: Path | None, progress: Progress) -> Dataset:
    """Read and prepare a dataset.

    Args:
        data_dir: The dataset's folder or one that holds it; None for the usual places (see ``data.locate``).

    Raises:
        DataMissing: files are not there and could not be downloaded.
        DataFault: files that cannot be used as they are, or nothing left after filtering.
        ConfigError: the specification contradicts itself.
    """
    check_spec(spec, f"dataset {spec.name}")
    located = None if spec.format == "demo" else locate(spec, data_dir, progress)
    return prepare_located(spec, located, progress)


def prepare_located(spec: DatasetSpec, located: Located | None, progress: Progress) -> Dataset:
    """As ``prepare``, with files that were found already; None for ``demo``."""
    sources = () if located is None else located.sources()
    if located is None:
        from genrec_unlearn_bench.data.demo import generate

        raw, where = generate(), spec.name
    else:
        progress.info(f"reading {spec.name} from {located.folder}")
        raw, where = reader(spec.format)(located.files, progress), str(located.folder)
    dropped = Counter(raw.dropped)
    progress.info(f"filtering and splitting {len(raw.log)} interactions of {len(raw.items)} items")
    items, parts, interactions = _split(spec, raw, dropped, where)
    for name, part in (("train", parts.train), ("valid", parts.valid), ("test", parts.test)):
        if not len(part):
            raise DataFault(
                f"the {name} part is empty",
                where=where,
                hint="more interactions, a smaller k_core or another split are needed",
            )
    notes = raw.notes
    del raw  # The log is in the parts by now; a large one need not be held twice while these are hashed.
    progress.info("hashing what was prepared")
    manifest = DatasetManifest(
        name=spec.name,
        format=spec.format,
        split=spec.split,
        k_core=spec.k_core,
        items=len(items),
        users=_count_users(parts),
        interactions=interactions,
        train=len(parts.train),
        valid=len(parts.valid),
        test=len(parts.test),
        with_brand=sum(1 for brand in items.brands if brand),
        with_price=int(np.isfinite(items.prices).sum()),
        dropped=dict(sorted(dropped.items())),
        sources=sources,
        digest=content_digest(items, parts, spec.split),
        notes=(*spec.notes, *notes, *_remarks(items, parts)),
    )
    progress.info(f"{spec.name}: {manifest.items} items, {manifest.users} users, {manifest.interactions} interactions")
    return Dataset(spec.name, items, parts.train, parts.valid, parts.test, manifest)


def _split(spec: DatasetSpec, raw: RawData, dropped: Counter[str], where: str) -> tuple[ItemTable, SplitParts, int]:
    """(items, parts, number of interactions; for rows as given the number of rows)."""
    if isinstance(raw.log, GivenRows):
        rows = raw.log
        users = first_appearance(np.concatenate([rows.train.users, rows.valid.users, rows.test.users]))
        return raw.items, as_given(rows, users), len(rows)
    log: Interactions | Sequences = raw.log
    cleaned = clean(raw, log, spec.k_core, dropped, where)
    if spec.split == "leave-one-out":
        parts = leave_one_out(cleaned.users, cleaned.rows, cleaned.times)
    elif cleaned.times is not None:
        parts = global_time(cleaned.users, cleaned.rows, cleaned.times)
    else:
        raise DataFault("sequences have no dates, so they cannot be split by time", where=where)
    return cleaned.items, parts, len(cleaned.rows)


def _count_users(parts: SplitParts) -> int:
    columns = [parts.train.event_users, parts.train.users, parts.valid.users, parts.test.users]
    seen = np.zeros(max(int(column.max(initial=-1)) for column in columns) + 1, dtype=np.bool_)
    for column in columns:
        seen[column] = True
    return int(seen.sum())


def _remarks(items: ItemTable, parts: SplitParts) -> tuple[str, ...]:
    """Remarks on items without interactions or text."""
    seen = np.zeros(len(items), dtype=np.bool_)
    for part in (parts.train, parts.valid, parts.test):
        seen[part.targets] = True
        seen[part.events] = True
    fields = zip(items.titles, items.descriptions, items.texts, items.brands, items.categories, strict=True)
    textless = sum(1 for row in fields if not any(row))
    remarks = []
    if unseen := int((~seen).sum()):
        remarks.append(f"{unseen} items occur in no interaction and stay in the catalogue")
    if textless:
        remarks.append(f"{textless} items have no text at all; their id stands in for it")
    return tuple(remarks)
