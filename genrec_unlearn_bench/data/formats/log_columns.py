"""A tab-separated log read as columns, in blocks: what a large log needs instead of one Python object a cell.

Only a file without surprises is read this way. Whatever the plain reader would have to think about (another number of
columns, a carriage return inside a line, bytes that are no UTF-8, a damaged gzip file) raises ``NotPlain``; that reader
then reads the whole file again, and reports what there is to report.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.formats.lines import whole_number

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NameColumn", "NotPlain", "blocks", "times", "total_blocks"]

BLOCK = 1 << 24
"""Bytes read at a time."""
_GZIP = b"\x1f\x8b"


class NotPlain(Exception):
    """The file has something that only a line-by-line reader can judge."""


@dataclass(frozen=True, eq=False)
class NameColumn:
    """A column of names: the distinct ones, without white space around them, and the place of each row's.

    Attributes:
        distinct: In the order of their first appearance; two of them may be equal after stripping.
        places: [n] int32.
    """

    distinct: Sequence[str]
    places: np.ndarray[Any, np.dtype[np.int32]]

    @classmethod
    def of(cls, column: pa.Array) -> NameColumn:
        """The names of a column of strings."""
        encoded = column.dictionary_encode()
        return cls([name.strip() for name in encoded.dictionary.to_pylist()], encoded.indices.to_numpy())


def blocks(path: Path, skip: int, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
    """The wanted columns of block after block, as arrays of strings.

    Args:
        skip: Number of lines at the beginning that are no data.
        columns: Places of the columns, from 0.

    Raises:
        NotPlain: See the module.
    """
    import pyarrow as pa
    from pyarrow import csv

    names = [f"f{place}" for place in columns]
    parsing = csv.ParseOptions(delimiter="\t", quote_char=False, escape_char=False, newlines_in_values=False)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, include_columns=names
    )
    for lines in _lines(path, skip):
        # One block for Arrow, so that every column is one array.
        reading = csv.ReadOptions(autogenerate_column_names=True, block_size=len(lines) + 1)
        try:
            table = csv.read_csv(pa.BufferReader(lines), reading, parsing, converting)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as fault:
            raise NotPlain(str(fault)) from None
        yield [table.column(name).combine_chunks() for name in names]


def times(column: pa.Array) -> IntArray:
    """Whole numbers out of a column of strings. Raises NotPlain where a cell holds none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Arrow's own conversion knows other spellings than ``whole_number``, so it gets only what both read alike.
    if pc.all(pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")).as_py():
        return np.asarray(pc.cast(column, pa.int64()).to_numpy(), dtype=np.int64)
    names = NameColumn.of(column)
    found = np.empty(len(names.distinct), dtype=np.int64)
    for place, name in enumerate(names.distinct):
        number = whole_number(name)
        if number is None:
            raise NotPlain("a timestamp is no whole number")
        found[place] = number
    return np.asarray(found[names.places], dtype=np.int64)


def total_blocks(path: Path) -> int | None:
    """How many blocks a file has; None for a gzipped one, which does not say."""
    with path.open("rb") as probe:
        if probe.read(2) == _GZIP:
            return None
    return max(1, -(-path.stat().st_size // BLOCK))


def _lines(path: Path, skip: int) -> Iterator[bytes]:
    """Whole lines, ``BLOCK`` bytes at a time, every line ended by a single line feed."""
    try:
        with path.open("rb") as probe:
            zipped = probe.read(2) == _GZIP
        with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
            for _ in range(skip):
                stream.readline()
            yield from _whole(stream)
    except (OSError, EOFError, zlib.error) as fault:
        raise NotPlain(str(fault)) from None


def _whole(stream: BufferedIOBase) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read(BLOCK):
        head, feed, tail = chunk.rpartition(b"\n")
        if not feed:
            rest += chunk
            continue
        block, rest = rest + head + feed, tail
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        if b"\r" in block or b"\0" in block:
            raise NotPlain("a carriage return or a zero byte inside a line")
        if block.strip(b"\n"):
            yield block
    if rest.strip(b"\r\n"):
        if b"\r" in rest or b"\0" in rest:
            raise NotPlain("a carriage return or a zero byte inside a line")
        yield rest
