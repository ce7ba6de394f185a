"""Read input line by line, plain or gzipped; everything wrong with a file's bytes becomes a ``DataFault``."""

from __future__ import annotations

import gzip
import json
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.errors import DataFault

SHOWN = 20
"""How many faults an error lists."""

_BOM = b"\xef\xbb\xbf"


class BrokenLine(ValueError):
    """A line that cannot be used; the message is a reason, without the line itself."""


Content = TypeVar("Content")
Row: TypeAlias = tuple[Path, int, Content | BrokenLine]
"""File, line (or row) from 1, and what stands there."""


class Faults:
    """Collects what is wrong with strict input, so that a user can fix everything in one go."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.count = 0

    def add(self, path: Path, line: int | None, what: str) -> None:
        self.count += 1
        if len(self.shown) < SHOWN:
            place = path.name if line is None else f"{path.name}:{line}"
            self.shown.append(f"{place}: {what}")

    def check(self, where: Path, hint: str) -> None:
        """Raise DataFault with the first faults if there was any."""
        if self.count:
            listing = "".join(f"\n  - {line}" for line in self.shown)
            more = f"\n  … and {self.count - len(self.shown)} more" if self.count > len(self.shown) else ""
            plural = "fault" if self.count == 1 else "faults"
            raise DataFault(f"{self.count} {plural} in the data:{listing}{more}", where=str(where), hint=hint)


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """(line number from 1, text without its line end) of every line that is not blank.

    Raises:
        DataFault: not in this encoding, a damaged or cut-off gzip file, no line at all, or a file that cannot be read.
    """
    number = 0
    empty = True
    try:
        with path.open("rb") as probe:
            zipped = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                text = (raw[3:] if number == 1 and raw.startswith(_BOM) else raw).decode(encoding).rstrip("\r\n")
                if text.strip():
                    empty = False
                    yield number, text
    except UnicodeDecodeError as fault:
        raise DataFault(
            f"not {encoding.upper()}: byte 0x{fault.object[fault.start]:02x}",
            where=f"{path}:{number}",
            hint="convert the file to UTF-8, for example with `iconv -f latin1 -t utf-8`",
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
        raise DataFault(
            f"damaged or cut-off gzip file ({fault})",
            where=f"{path}, after line {number}",
            hint="remove the file and fetch it again",
        ) from None
    except OSError as fault:
        raise DataFault(f"cannot be read: {fault.strerror or fault}", where=str(path)) from None
    if empty:
        raise DataFault("the file is empty", where=str(path), hint="put the whole file there, or fetch it again")


def column_places(header: Sequence[str], columns: Mapping[str, Sequence[str]], path: Path) -> tuple[int, ...]:
    """The place in a header line of each column, given with its spellings; raises DataFault where one is missing."""
    found = [[place for place, cell in enumerate(header) if cell in spellings] for spellings in columns.values()]
    missing = [name for name, places in zip(columns, found, strict=True) if not places]
    if missing:
        raise DataFault(
            f"missing column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; the first line is "
            f"{' '.join(header)[:80]!r}",
            where=f"{path}:1",
            hint=f"the first line names the columns, among them {', '.join(columns)}",
        )
    return tuple(places[0] for places in found)


def json_object(text: str) -> dict[str, Any]:
    """One JSON object; raises BrokenLine with the reason."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as fault:
        raise BrokenLine(f"broken JSON: {fault.msg} at column {fault.colno}") from None
    except (ValueError, RecursionError):
        raise BrokenLine("broken JSON: a number too long or a nesting too deep") from None
    if not isinstance(value, dict):
        raise BrokenLine(f"a JSON object is expected, not {type(value).__name__}")
    return value


def json_document(path: Path) -> dict[str, Any]:
    """A whole file that is one JSON object; raises DataFault."""
    try:
        return json_object("\n".join(text for _, text in read_lines(path)))
    except BrokenLine as fault:
        raise DataFault(str(fault), where=str(path), hint="fetch the file again") from None


_LARGEST = 2**62


def whole_number(value: object) -> int | None:
    """``value`` as an int, if it is one (``"12"``, ``12``, ``12.0``) and lies within ±2**62."""
    if isinstance(value, str):
        value = value.strip()
        # int() also takes "1_000" and digits of other scripts; a data file means neither.
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:
            number = int(value)
            return number if -_LARGEST < number < _LARGEST else None
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not -_LARGEST < value < _LARGEST or value != int(value):
        return None
    return int(value)


def moment(value: object) -> int | None:
    """A time as a whole number: one as it is, an ISO 8601 date or time in milliseconds (UTC where it names no zone)."""
    number = whole_number(value)
    if number is None and isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    return number


def as_int64(values: array[int]) -> IntArray:
    """A typed array as a NumPy array of its own."""
    return np.frombuffer(values, dtype=np.int64).copy() if len(values) else np.zeros(0, dtype=np.int64)


def by_number(item_id: str) -> tuple[int, str]:
    """Sort key for item ids that are numbers written as text; others come first."""
    number = whole_number(item_id)
    return (-1 if number is None else number, item_id)
