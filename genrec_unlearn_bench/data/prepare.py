"""Prepare a dataset from its files: locate, read, clean, filter, split, and count what was dropped.

The outcome depends on the content of the files and on the specification alone, to the byte. ``bench data import``
prepares a user's folder and writes the dataset's YAML beside the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.data.catalogue import (
    SPEC_FILE,
    DatasetSpec,
    FileSpec,
    SplitName,
    TableMapping,
    check_spec,
    imported_folders,
    load_spec,
    packaged_datasets,
    remember_import,
)
from genrec_unlearn_bench.data.dataset import Dataset, DatasetManifest, content_digest
from genrec_unlearn_bench.data.formats import FormatName, discover
from genrec_unlearn_bench.data.formats.reader import read
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.locate import Located, locate, present
from genrec_unlearn_bench.data.splits import GivenRows, RawData, SplitParts, as_given, clean, global_time, leave_one_out
from genrec_unlearn_bench.errors import DataFault, DataMissing, UsageError
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.progress import Progress


def prepare(spec: DatasetSpec, data_dir: Path | None, progress: Progress) -> Dataset:
    """Read and prepare a dataset; ``data_dir`` is its folder or one that holds it, None for the usual places.

    Raises DataMissing for files that could not be downloaded either, DataFault for files that cannot be used as they
    are or leave nothing after filtering, and ConfigError for a specification that contradicts itself.
    """
    check_spec(spec, f"dataset {spec.name}")
    return _prepared(spec, locate(spec, data_dir, progress), progress)


def import_folder(
    folder: Path,
    name: str,
    progress: Progress,
    *,
    format_name: FormatName | None = None,
    split: SplitName | None = None,
    k_core: int | None = None,
    title: str | None = None,
    mapping: TableMapping | None = None,
) -> tuple[DatasetSpec, Dataset]:
    """Validate the data in ``folder`` and make it known as the dataset ``name``.

    The files stay where they are. If everything is right, ``dataset.yaml`` is written beside them, and the user's data
    folder remembers where they lie (``catalogue.remember_import``). What no argument names is taken from an earlier
    ``dataset.yaml`` of that name, as when the folder has moved.

    Args:
        format_name: None: ``table`` with a mapping, else ``folder``.
        split: None for what the format allows: by time where there are dates, else leave-one-out, else as given.
        k_core: None: 0.

    Raises UsageError for the name of a dataset that ships and for a folder that has another name, ConfigError where
    name, split and filtering do not go together, and DataFault with what is wrong with the data, as far as possible all
    at once.
    """
    if name in packaged_datasets():
        raise UsageError(f"the name {name!r} belongs to a dataset of this package", hint="choose another name")
    if not folder.is_dir():
        raise DataMissing("there is no such folder", where=str(folder))
    path = folder / SPEC_FILE
    if path.is_file() and (held := load_spec(path).name) != name:
        hint = f"give that name, import a copy of its files alone, or delete its {SPEC_FILE} to give {held!r} up"
        raise UsageError(f"the folder is the dataset {held!r} already", where=str(folder), hint=hint)
    if (before := imported_folders().get(name, folder)).resolve() != folder.resolve():
        progress.info(f"{name} was {before} until now")
    spec = _asked_spec(folder, name, format_name, mapping, {"title": title, "split": split, "k_core": k_core})
    check_spec(spec, str(folder))
    parts = {file.role: present(file, folder) for file in spec.files}
    if absent := [role for role, paths in parts.items() if not paths]:
        raise DataMissing(f"no file for {', '.join(absent)}", where=str(folder), hint="see files in the mapping")
    dataset = _prepared(spec, Located(folder, parts), progress)
    content = spec.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    replaced = path.read_text(encoding="utf-8") if path.is_file() else None
    atomic_text(path, text, "the data folder")
    try:
        remember_import(name, folder)
    except BaseException:
        path.unlink() if replaced is None else atomic_text(path, replaced, "the data folder")
        raise
    return spec, dataset


def _asked_spec(
    folder: Path, name: str, format_name: FormatName | None, mapping: TableMapping | None, named: Mapping[str, Any]
) -> DatasetSpec:
    """What the call names, else an earlier ``dataset.yaml`` of that name, else what is usual."""
    earlier = load_spec(folder / SPEC_FILE) if (folder / SPEC_FILE).is_file() else None
    kept = earlier.model_dump(exclude_defaults=True, by_alias=True) if earlier else {}
    format_name = format_name or ("table" if mapping else kept.get("format", "folder"))
    if mapping or format_name != kept.get("format"):
        kept = {field: kept[field] for field in ("title", "k_core") if field in kept}
    asked = mapping or (earlier if earlier and "columns" in kept else TableMapping())
    files = asked.files or [FileSpec(role=role, names=(at,)) for role, at in discover(format_name, folder).items()]
    roles = {file.role for file in files}
    undated = "sequences" in roles or (format_name == "table" and "time" not in asked.columns.interactions)
    usual = "as-given" if "train" in roles else "leave-one-out" if undated else "global-time"
    content = {"title": name, "split": usual, **kept}
    content |= mapping.model_dump(exclude_defaults=True, by_alias=True) if mapping else {}
    content |= {field: value for field, value in named.items() if value is not None}
    return parse(DatasetSpec, {**content, "name": name, "format": format_name, "files": files}, where=str(folder))


def _prepared(spec: DatasetSpec, located: Located, progress: Progress) -> Dataset:
    sources, where = located.sources() if spec.files else (), str(located.folder)
    progress.info(f"reading {spec.name} from {where}")
    raw = read(located.parts, spec, progress)
    dropped = Counter(raw.dropped)
    progress.info(f"filtering and splitting {len(raw.log)} interactions of {len(raw.items)} items")
    items, parts, interactions = _split(spec, raw, dropped, where)
    for name, part in parts._asdict().items():
        if not len(part):
            hint = "more interactions, a smaller k_core or another split are needed"
            raise DataFault(f"the {name} part is empty", where=where, hint=hint)
    times = None if isinstance(raw.log, GivenRows) else raw.log.times
    early = 0 if times is None else int((times < 0).sum())
    remarks = {f"{early} interactions are dated before 1970; a timestamp is a number of seconds": early}
    notes = raw.notes
    del raw, times  # The log is in the parts by now; a large one need not be held twice while these are hashed.
    # All parts lie over the same events.
    unseen = len(items) - len(np.unique(np.concatenate([parts.train.events, *(part.targets for part in parts)])))
    remarks[f"{unseen} items occur in no interaction and stay in the catalogue"] = unseen
    texts = zip(items.titles, items.descriptions, items.texts, items.brands, items.categories, strict=True)
    textless = sum(1 for row in texts if not any(row))
    remarks[f"{textless} items have no text at all; their id stands in for it"] = textless
    progress.info("hashing what was prepared")
    manifest = DatasetManifest(
        **spec.model_dump(include={"name", "format", "split", "k_core"}),
        items=len(items),
        users=len(np.unique(np.concatenate([parts.train.event_users, *(part.users for part in parts)]))),
        interactions=interactions,
        train=len(parts.train),
        valid=len(parts.valid),
        test=len(parts.test),
        with_brand=sum(1 for brand in items.brands if brand),
        with_price=int(np.isfinite(items.prices).sum()),
        dropped=dict(sorted((+dropped).items())),
        sources=sources,
        digest=content_digest(items, parts, spec.split),
        notes=(*spec.notes, *notes, *(remark for remark, count in remarks.items() if count)),
    )
    progress.info(f"{spec.name}: {manifest.items} items, {manifest.users} users, {manifest.interactions} interactions")
    return Dataset(spec.name, items, *parts, manifest)


def _split(spec: DatasetSpec, raw: RawData, dropped: Counter[str], where: str) -> tuple[ItemTable, SplitParts, int]:
    """(items, parts, number of interactions; for rows as given the number of rows)."""
    if isinstance(raw.log, GivenRows):
        return raw.items, as_given(raw.log), len(raw.log)
    items, log = clean(raw.items, raw.log, spec.k_core, dropped, where)
    if spec.split == "leave-one-out" or log.times is None:
        return items, leave_one_out(log.users, log.items, log.times), len(log)
    return items, global_time(log.users, log.items, log.times), len(log)
