"""A tab-separated log read as columns, in blocks: what a large log needs instead of one Python object a cell.

Only a file without surprises is read this way. Whatever the plain reader would have to think about (another number of
columns, a carriage return inside a line, bytes that are no UTF-8, a damaged gzip file) raises ``NotPlain``; that reader
then reads the whole file again, and reports what there is to report.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.formats.lines import is_gzipped

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NotPlain", "blocks", "names", "times", "total_blocks"]

BLOCK = 1 << 24
"""Bytes read at a time."""


class NotPlain(Exception):
    """The file has something that only a line-by-line reader can judge."""


def names(column: pa.Array) -> tuple[list[str], NDArray[np.int32]]:
    """The distinct strings of a column, stripped, by first appearance (two may then be equal), and each row's place."""
    encoded = column.dictionary_encode()
    return [name.strip() for name in encoded.dictionary.to_pylist()], encoded.indices.to_numpy()


def blocks(path: Path, skip: int, columns: Sequence[int]) -> Iterator[list[pa.Array]]:
    """The wanted columns (places from 0) of block after block as strings, behind the first ``skip`` lines."""
    import pyarrow as pa
    from pyarrow import csv

    wanted = [f"f{place}" for place in columns]
    parsing = csv.ParseOptions(delimiter="\t", quote_char=False, escape_char=False, newlines_in_values=False)
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False, include_columns=wanted
    )
    for lines in _lines(path, skip):
        # One block for Arrow, so that every column is one array.
        reading = csv.ReadOptions(autogenerate_column_names=True, block_size=len(lines) + 1)
        try:
            table = csv.read_csv(pa.BufferReader(lines), reading, parsing, converting)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as fault:
            raise NotPlain(str(fault)) from None
        yield [table.column(name).combine_chunks() for name in wanted]


def times(column: pa.Array) -> IntArray:
    """Whole numbers out of a column of strings. Raises NotPlain for a cell that is not simply digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # Arrow's own conversion knows other spellings than ``whole_number``, so it gets only what both read alike.
    if not pc.all(pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")).as_py():
        raise NotPlain("a timestamp is not simply digits")
    return np.asarray(pc.cast(column, pa.int64()).to_numpy(), dtype=np.int64)


def total_blocks(path: Path) -> int | None:
    """How many blocks a file has; None for a gzipped one, which does not say."""
    return None if is_gzipped(path) else max(1, -(-path.stat().st_size // BLOCK))


def _lines(path: Path, skip: int) -> Iterator[bytes]:
    """Whole lines, ``BLOCK`` bytes and the rest of a line at a time, every line ended by a single line feed."""
    try:
        with gzip.open(path, "rb") if is_gzipped(path) else path.open("rb") as stream:
            for _ in range(skip):
                stream.readline()
            while block := stream.read(BLOCK) + stream.readline():
                block = block.replace(b"\r\n", b"\n")
                if b"\r" in block or b"\0" in block:
                    raise NotPlain("a carriage return or a zero byte inside a line")
                if block.strip(b"\n"):
                    yield block
    except (OSError, EOFError, zlib.error) as fault:
        raise NotPlain(str(fault)) from None
