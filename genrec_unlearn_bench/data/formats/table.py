"""Tables (csv, tsv, parquet, jsonl, Arrow; ``.gz``), read through a mapping of their columns in the dataset's YAML.

csv, tsv, parquet and Arrow are streamed by ``datasets``, without the copy that it would keep otherwise. Its csv
defaults turn a user ``NA`` into None and an item ``1e5`` into a float, and take the first cell of a row longer than the
header for an index: here every cell is text, ``NA`` included, and such rows are refused. jsonl, and text with
separators of several characters, are read line by line, as one broken line there must not hide the others.

Strict as the plain folder: what is broken is reported with file and line (for parquet and Arrow, the row), not skipped.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.data.catalogue import Column, DatasetSpec, FileSpec
from genrec_unlearn_bench.data.formats.folder import id_text, read_items, read_log
from genrec_unlearn_bench.data.formats.lines import BrokenLine, Row, json_object, read_lines
from genrec_unlearn_bench.data.formats.minionerec import given_part
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.raw import GivenRows, ItemColumns, RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

BATCH = 10_000
"""Rows in memory at a time."""
_HINT = "see columns and files in the dataset's YAML"

Files = Mapping[str, tuple[Path, ...]]


def read(files: Files, spec: DatasetSpec, progress: Progress) -> RawData:
    """Read ``interactions`` or ``train``, ``valid`` and ``test``, and ``items`` where there are any.

    Without ``items`` the catalogue is what occurs, and there is no metadata.
    """
    dropped: Counter[str] = Counter()
    given = "train" in files
    asked = [spec.columns.interactions[name] for name in ("user", "item", *(("history",) if given else ()))]
    time = spec.columns.interactions.get("time")
    asked += [time] if time and not given else []

    def listed(role: str) -> Iterator[Row[Sequence[object]]]:
        return progress.track(role, _cells(files[role], _file(spec, role), asked))

    if "items" in files:
        rows, items = _items(files["items"], spec, dropped, progress)
    else:
        rows, items = _occurring(cells for role in files for cells in listed(role))
    if given:
        users: dict[str, int] = {}
        parts = [
            given_part(listed(name), files[name][0], name, rows, users, dropped) for name in ("train", "valid", "test")
        ]
        return RawData(items, GivenRows(*parts), dropped)
    where = files["interactions"][0]
    return RawData(
        items, read_log(listed("interactions"), rows, dropped, where, _HINT, dated=time is not None), dropped
    )


def _file(spec: DatasetSpec, role: str) -> FileSpec:
    return next(file for file in spec.files if file.role == role)


def _items(
    paths: tuple[Path, ...], spec: DatasetSpec, dropped: Counter[str], progress: Progress
) -> tuple[dict[str, int], ItemTable]:
    fields, attributes = spec.columns.items, spec.columns.attributes
    names, columns = (*fields, *attributes), [*fields.values(), *attributes.values()]

    def listed() -> Iterator[Row[Mapping[str, object]]]:
        for path, number, cells in progress.track("items", _cells(paths, _file(spec, "items"), columns)):
            if isinstance(cells, BrokenLine):
                yield path, number, cells
                continue
            found = dict(zip(names, cells, strict=True))
            own = {name: found.pop(name) for name in attributes}
            yield path, number, {"item_id": found.pop("id"), **found, **({"attributes": own} if own else {})}

    return read_items(listed(), dropped, paths[0], _HINT)


def _occurring(listed: Iterator[Row[Sequence[object]]]) -> tuple[dict[str, int], ItemTable]:
    columns = ItemColumns(Counter())
    for _, _, cells in listed:
        if isinstance(cells, BrokenLine):
            continue
        for value in (cells[1], *(cells[2] if len(cells) > 2 and isinstance(cells[2], list) else ())):
            item_id, why = id_text(value)
            if not why and item_id not in columns.row:
                columns.add(item_id)
    return columns.row, columns.finish()


def _cells(paths: tuple[Path, ...], file: FileSpec, asked: Sequence[Column]) -> Iterator[Row[Sequence[object]]]:
    """The values of the asked fields in every row of some files."""
    for path in paths:
        for number, record in _records(path, file, asked):
            yield path, number, record if isinstance(record, BrokenLine) else [_value(record, one) for one in asked]


def _value(record: Mapping[str, object], column: Column) -> object:
    for name in column.columns:
        value: object = record.get(name)
        if name not in record and "." in name:
            value = record
            for part in name.split("."):
                if isinstance(value, str):
                    # The Hub's parquet copies of nested fields hold them as text.
                    with suppress(BrokenLine):
                        value = json_object(value)
                value = value.get(part) if isinstance(value, dict) else None
        if value is not None and value != "" and value != []:
            between = column.split
            if between is None or not isinstance(value, str):
                return value
            return [part.strip() for part in value.split(between) if part.strip()]
    return None


def _records(path: Path, file: FileSpec, asked: Sequence[Column]) -> Iterator[tuple[int, dict[str, Any] | BrokenLine]]:
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    if ending == "jsonl":
        for number, text in read_lines(path, file.encoding):
            try:
                record = json_object(text)
            except BrokenLine as fault:
                yield number, fault
            else:
                yield number, record
        return
    if ending in ("parquet", "arrow"):
        yield from _streamed(path, ending, asked, {})
        return
    sep = file.sep or ("\t" if ending == "tsv" else ",")
    lines = read_lines(path, file.encoding)
    number, first = next(lines)
    quoting = csv.QUOTE_NONE if sep == "\t" or len(sep) > 1 else csv.QUOTE_MINIMAL
    header = list(file.header or _split(first, sep, quoting))
    _check_header(header, asked, f"{path}:1", f"its separator is taken to be {sep!r} (sep), and ")
    if file.header is None:
        number, first = next(lines, (0, ""))
    if number and len(cells := _split(first, sep, quoting)) > len(header):
        raise DataFault(f"{len(cells)} cells, and {len(header)} columns", where=f"{path}:{number}", hint=_HINT)
    if len(sep) == 1:
        options = {"sep": sep, "quoting": quoting, "encoding": file.encoding, "header": None if file.header else 0}
        yield from _streamed(path, "csv", asked, {**options, "names": header})
        return
    for number, text in read_lines(path, file.encoding):
        cells = text.split(sep)
        if number > 1 or file.header is not None:
            few = BrokenLine(f"{len(cells)} cells, and {len(header)} columns")
            yield number, dict(zip(header, cells, strict=True)) if len(cells) == len(header) else few


def _split(line: str, sep: str, quoting: Any) -> list[str]:
    if len(sep) > 1:
        return line.split(sep)
    try:
        return next(csv.reader([line], delimiter=sep, quoting=quoting), [])
    except csv.Error:
        return []


def _check_header(header: Sequence[str], asked: Sequence[Column], where: str, more: str = "") -> None:
    def there(column: Column) -> bool:
        return any(name in header or name.split(".")[0] in header for name in column.columns)

    if missing := [" or ".join(column.columns) for column in asked if not there(column)]:
        hint = f"the file has {', '.join(header)[:200]}; {more}{_HINT}"
        raise DataFault(f"no column {', '.join(missing)}", where=where, hint=hint)
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise DataFault(f"two columns are called {', '.join(twice)}", where=where, hint="rename one of them")


def _streamed(
    path: Path, ending: str, asked: Sequence[Column], options: Mapping[str, Any]
) -> Iterator[tuple[int, dict[str, Any] | BrokenLine]]:
    """Rows of a file as ``datasets`` streams them, with their lines: the header and breaks within cells counted."""
    text = ending == "csv"
    line = 2 if text and options["header"] == 0 else 1
    wanted = {part for column in asked for name in column.columns for part in (name, name.split(".")[0])}
    try:
        for batch in _batches(path, ending, options):
            _check_header(batch.column_names, asked, str(path))
            kept = [name for name in batch.column_names if text or name in wanted]
            for cells in zip(*(batch.column(name).to_pylist() for name in kept), strict=True):
                if not text or any(cells):
                    yield line, dict(zip(kept, cells, strict=True))
                line += 1 + (sum(cell.count("\n") for cell in cells if cell) if text else 0)
    except DataFault:
        raise
    except Exception as fault:
        if text:
            # A wrong byte or a damaged archive: said with its line.
            for _ in read_lines(path, options["encoding"]):
                pass
        what = " ".join(str(fault).split())[:300]
        raise DataFault(f"not a readable {ending} file: {what}", where=f"{path}, after line {line - 1}") from None


def _batches(path: Path, ending: str, options: Mapping[str, Any]) -> Iterator[Any]:
    """Arrow tables of a file, from the builders themselves: ``load_dataset`` asks the Hub even for local files."""
    from datasets import Features, Value, logging

    logging.set_verbosity(logging.CRITICAL)
    if ending == "csv":
        from datasets.packaged_modules.csv.csv import Csv as Builder

        features = Features({name: Value("string") for name in options["names"]})
        options = {**options, "features": features, "keep_default_na": False, "skip_blank_lines": False}
    elif ending == "parquet":
        from datasets.packaged_modules.parquet.parquet import Parquet as Builder
    else:
        from datasets.packaged_modules.arrow.arrow import Arrow as Builder
    stream = Builder(data_files={"train": [str(path)]}, **options).as_streaming_dataset(split="train")
    yield from stream.with_format("arrow").iter(batch_size=BATCH)
