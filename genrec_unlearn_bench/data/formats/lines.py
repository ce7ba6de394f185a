"""Lines of input files, plain or gzipped, and what is wrong with them, told as ``DataFault``."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from genrec_unlearn_bench.errors import DataFault

SHOWN = 20
"""How many faults an error lists."""
_BOM = b"\xef\xbb\xbf"


class BrokenLine(ValueError):
    """A line that cannot be used; the message is a reason, without the line itself."""


Content = TypeVar("Content")
Place: TypeAlias = int | str
"""Line (or row) from 1, or the name of an entry of a JSON document."""
Row: TypeAlias = tuple[Path, Place, Content | BrokenLine]
"""File, place, and what stands there."""


class Faults:
    """Collects what is wrong with rows, so that a user can fix everything in one go."""

    def __init__(self, where: Path, hint: str) -> None:
        self.where, self.hint = where, hint
        self.shown: list[str] = []
        self.count = self.read = 0

    def add(self, path: Path, place: Place, what: str) -> None:
        self.count += 1
        if len(self.shown) < SHOWN:
            self.shown.append(f"{path.name}:{place}: {what}")

    def usable(self, rows: Iterable[Row[Content]]) -> Iterator[tuple[Path, Place, Content]]:
        """The rows that can be read at all; the others are faults."""
        for path, place, content in rows:
            self.read += 1
            if isinstance(content, BrokenLine):
                self.add(path, place, str(content))
            else:
                yield path, place, content

    def check(self, dropped: Counter[str] | None = None) -> None:
        """Raise DataFault with the first faults, if any; with ``dropped``, a smaller part is counted there."""
        if dropped is not None and self.count <= self.read / 2:
            dropped[f"line of {self.where.name} that cannot be used"] += self.count
        elif self.count:
            listing = "".join(f"\n  - {line}" for line in self.shown)
            more = f"\n  … and {self.count - len(self.shown)} more" if self.count > len(self.shown) else ""
            what = f"{self.count} fault{'' if self.count == 1 else 's'} in the data:{listing}{more}"
            raise DataFault(what, where=str(self.where), hint=self.hint)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The bytes of a file, unpacked if they are gzipped."""
    with path.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
        yield stream


def read_lines(path: Path, encoding: str = "utf-8", *, whole: bool = False) -> Iterator[tuple[int, str]]:
    """(line number from 1, text without its line end) of every line that is not blank; ``whole``: all, with their ends.

    Raises DataFault: not in this encoding, a damaged or cut-off gzip file, no line at all, or no reading of the file.
    """
    number = 0
    empty = True
    try:
        with opened(path) as stream:
            for number, raw in enumerate(stream, start=1):
                text = (raw[3:] if number == 1 and raw.startswith(_BOM) else raw).decode(encoding)
                blank = not text.strip()
                empty = empty and blank
                if whole or not blank:
                    yield number, text if whole else text.rstrip("\r\n")
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


def json_object(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> dict[str, Any]:
    """One JSON object; raises BrokenLine with the reason. ``pairs`` makes objects of their names and values."""
    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as fault:
        raise BrokenLine(f"broken JSON: {fault}") from None
    if not isinstance(value, dict):
        raise BrokenLine(f"a JSON object is expected, not {type(value).__name__}")
    return value


def json_document(path: Path, *, unique: bool = False) -> dict[str, Any]:
    """A whole file that is one JSON object; raises DataFault. ``unique``: also where a name stands twice."""
    try:
        return json_object("\n".join(text for _, text in read_lines(path)), _each_once if unique else None)
    except BrokenLine as fault:
        raise DataFault(str(fault), where=str(path), hint="fetch the file again") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise BrokenLine(f"{len(twice)} names stand twice, {', '.join(map(repr, twice[:5]))} among them")
    return found


def id_text(value: object) -> tuple[str, str]:
    """(an id as text, "") or ("", what is wrong with it)."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return "", "is empty"
    if isinstance(value, str):
        return value.strip(), ""
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and value % 1 == 0:
        return str(int(value)), ""
    hint = "; one empty cell makes floats of a column of whole numbers" if isinstance(value, float) else ""
    return "", f"is neither text nor a whole number ({value!r:.40}{hint})"


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
            value = float("" if "_" in value or not value.isascii() else value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not -_LARGEST < value < _LARGEST:
        return None
    return int(value) if value == int(value) else None


def moment(value: object) -> tuple[int | None, bool]:
    """(a whole number as it is, ISO 8601 in milliseconds (UTC without a zone), whether it was a date)."""
    number = whole_number(value)
    if number is None and isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000), True
    return number, False
