"""Rows of tables (csv, tsv, RecBole's atomic files, parquet, jsonl, Arrow; ``.gz``) by the columns asked for, and the
JSON documents of MiniOneRec, LETTER and LC-Rec: the catalogue, whole sequences, and published semantic IDs.

Text is read by ``csv``: pandas fills rows that are too short, breaks lines at lone carriage returns, and takes a user
``NA`` for None and an item ``1e5`` for a float. Parquet and Arrow are streamed by ``datasets``, without its copy.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.data.catalogue import Column, FileSpec
from genrec_unlearn_bench.data.examples import Histories, IntArray
from genrec_unlearn_bench.data.formats.lines import (
    BrokenLine,
    Faults,
    Row,
    json_document,
    json_object,
    read_lines,
    whole_number,
)
from genrec_unlearn_bench.data.items import literal
from genrec_unlearn_bench.errors import DataFault

BATCH = 10_000
"""Rows in memory at a time."""
HINT = "docs/own-data.md says what each format consists of, and how --map names other columns, files and separators"
csv.field_size_limit(2**31 - 1)
ITEM_FIELDS = ("id", "title", "description", "brand", "price", "categories")

_TOKEN = re.compile(r"<([a-z])_([0-9]{1,9})>")
ATOMIC = ("inter", "item")
"""Endings of RecBole's files, whose header says ``name:type``."""


def rows(
    paths: Sequence[Path], file: FileSpec, asked: Sequence[Column], unread: Counter[str] | None, *, strict: bool
) -> Iterator[Row[list[object]]]:
    """The values of the asked columns in every row of some files; ``unread`` counts the fields not asked for. Raises
    DataFault where a file lacks a column, and if ``strict`` where no object of the jsonl files has it."""
    known = {name for column in asked for name in column.columns}
    names = dict[str, None]()
    for path in paths:
        for number, record in _records(path, file, asked, names):
            if isinstance(record, BrokenLine):
                yield path, number, record
                continue
            if unread is not None:
                unread.update(name for name in record if name not in known)
            yield path, number, [_value(record, column) for column in asked]
    if strict and names:
        _check_header(list(names), asked, str(paths[0]))


def atomic_types(path: Path) -> dict[str, str]:
    """Type by column name, in order, of an atomic file; raises DataFault."""
    cells = [cell.partition(":") for cell in next(read_lines(path))[1].split("\t")]
    return {name.strip(): kind for name, _, kind in cells}


def _value(record: Mapping[str, object], column: Column) -> object:
    empty: object = None
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
            if column.split is None or not isinstance(value, str):
                return value
            return [part.strip() for part in value.split(column.split) if part.strip()]
        empty = [] if value == [] else empty
    return empty


def _records(
    path: Path, file: FileSpec, asked: Sequence[Column], names: dict[str, None]
) -> Iterator[tuple[int, dict[str, Any] | BrokenLine]]:
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    if ending in ("jsonl", "json"):
        for number, text in read_lines(path, file.encoding):
            try:
                record = json_object(text)
                names |= dict.fromkeys(record)
                yield number, record
            except BrokenLine as fault:
                yield number, fault
    elif ending in ("parquet", "arrow"):
        yield from _streamed(path, ending, asked)
    else:
        yield from _text_records(path, ending, file, asked)


def _text_records(
    path: Path, ending: str, file: FileSpec, asked: Sequence[Column]
) -> Iterator[tuple[int, dict[str, Any] | BrokenLine]]:
    sep = file.sep or ("\t" if ending in ("tsv", *ATOMIC) else ",")
    quoting = csv.QUOTE_NONE if sep == "\t" else csv.QUOTE_MINIMAL
    above, header = 0, list(file.header or ())
    if not header:
        above, first = next(read_lines(path, file.encoding))
        ((_, cells),) = _cells([(above, first)], sep, quoting)
        if isinstance(cells, BrokenLine):
            raise DataFault(str(cells), where=f"{path}:{above}", hint=HINT)
        header = [name.partition(":")[0].strip() for name in cells] if ending in ATOMIC else cells
    _check_header(header, asked, f"{path}:{above or 1}", f"its separator is taken to be {sep!r} (sep), and ")
    for number, cells in _cells(read_lines(path, file.encoding, whole=True), sep, quoting):
        if isinstance(cells, BrokenLine):
            yield number, cells
        elif number > above and "".join(cells).strip():
            if len(cells) == len(header):
                yield number, dict(zip(header, cells, strict=True))
            else:
                yield number, BrokenLine(f"{len(cells)} cells, and {len(header)} columns")


def _cells(lines: Iterable[tuple[int, str]], sep: str, quoting: Any) -> Iterator[tuple[int, list[str] | BrokenLine]]:
    """The cells of each row and the line in which it begins: in quotes, cells may hold line breaks."""
    if len(sep) > 1:
        yield from ((number, text.rstrip("\r\n").split(sep)) for number, text in lines)
        return
    reader = csv.reader((text for _, text in lines), delimiter=sep, quoting=quoting, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as fault:
            yield number, BrokenLine(f"the row cannot be read: {str(fault).partition(' - ')[0]}")


def _check_header(header: Sequence[str], asked: Sequence[Column], where: str, more: str = "") -> None:
    def there(column: Column) -> bool:
        return any(name in header or name.split(".")[0] in header for name in column.columns)

    if missing := [" or ".join(column.columns) for column in asked if not there(column)]:
        hint = f"the file has {', '.join(header)[:200]}; {more}{HINT}"
        raise DataFault(f"no column {', '.join(missing)}", where=where, hint=hint)
    if twice := sorted({name for name in header if name and header.count(name) > 1}):
        raise DataFault(f"two columns are called {', '.join(twice)}", where=where, hint="rename one of them")


def _streamed(path: Path, ending: str, asked: Sequence[Column]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of parquet or Arrow, from the builders themselves: ``load_dataset`` asks the Hub even for local files."""
    from datasets import logging
    from datasets.packaged_modules.arrow.arrow import Arrow
    from datasets.packaged_modules.parquet.parquet import Parquet

    logging.set_verbosity(logging.CRITICAL)
    wanted = {part for column in asked for name in column.columns for part in (name, name.split(".")[0])}
    row = 1
    try:
        files = {"train": [str(path)]}
        builder = Parquet(data_files=files, batch_size=BATCH) if ending == "parquet" else Arrow(data_files=files)
        for batch in builder.as_streaming_dataset(split="train").with_format("arrow").iter(batch_size=BATCH):
            _check_header(batch.column_names, asked, str(path))
            for record in batch.select([name for name in batch.column_names if name in wanted]).to_pylist():
                yield row, record
                row += 1
    except DataFault:
        raise
    except Exception as fault:
        what = f"not a readable {ending} file: {' '.join(str(fault).split())[:300]}"
        raise DataFault(what, where=f"{path}, after row {row - 1}") from None


def in_order(ids: Iterable[str]) -> list[str]:
    """Item ids by their number; those that are none come first."""
    return sorted(ids, key=lambda item_id: (-1 if (number := whole_number(item_id)) is None else number, item_id))


def item_documents(path: Path) -> Iterator[Row[list[object]]]:
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


def sequence_documents(path: Path) -> Iterator[Row[list[object]]]:
    """User and item of an ``inter.json`` (user -> items in order)."""
    for user, listed in json_document(path).items():
        if not isinstance(listed, list):
            yield path, f"user {user!r}", BrokenLine("has no list of items")
            continue
        for item in listed:
            yield path, f"user {user!r}", [user, item]


def read_index(path: Path, ids: Sequence[str], *, whole: bool = False) -> IntArray:
    """Read the codes of the items ``ids``, in that order; the letter of a token names its level (a, b, c …).

    Args:
        whole: The index must name no other items: item numbers of a larger catalogue look alike.

    Returns:
        [N, L] codes, ``PAD`` behind the end of shorter ones.

    Raises:
        DataFault: an item twice, without tokens, or with tokens that are none or skip a level; all of them at once.
    """
    document = json_document(path, unique=True)
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
    return Histories.of(codes).items
