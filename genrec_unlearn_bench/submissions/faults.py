"""Faults of a submission, in the words of whoever has to fix them, and what no text of a submission may hold.

How much a submission may hold is declared here too: every size is bounded before anything is read. Control
characters, text that hides or reverses its neighbours and machine paths are refused. Everything else that a
submitter writes is plain text for the renderers, which escape it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError

__all__ = [
    "ARCHIVE_BYTES",
    "DEPTH",
    "FILES",
    "FILE_BYTES",
    "PARQUET_ROWS",
    "REPORTED_SEEDS",
    "SAFE_PART",
    "TEXT_LENGTH",
    "TOTAL_BYTES",
    "TRIALS",
    "WORDS_BYTES",
    "Fault",
    "Refused",
    "file_limit",
    "is_finite",
    "machine_path",
    "odd_text",
    "printable",
    "values_of",
]

FILES = 8000
"""Files in one submission: 16 tasks x 5 backbones x 50 seeds with two files each."""
FILE_BYTES = 32 << 20
"""The largest file: an unabridged per-user table of a million rows."""
TOTAL_BYTES = 512 << 20
"""All files together, unpacked."""
ARCHIVE_BYTES = 256 << 20
"""An archive, packed."""
WORDS_BYTES = 256 << 10
"""submission.yaml and a method file."""
RECORD_BYTES = 4 << 20
"""A result.json or verification.json."""
DEPTH = 24
"""Nesting of YAML and JSON; a record needs seven levels."""
NODES = 50_000
"""Values in one YAML file."""
PARQUET_ROWS = 4_000_000
"""Rows of one per-user table; run-length encoding can promise billions in a few bytes."""
TEXT_LENGTH = 20_000
"""Characters of one text field."""

TRIALS = 12
"""The most configurations that may be tried for the ruleset ``tuned`` (protocol, sec. 5). Equal to
``pipeline.tune.TRIALS``, which cannot be imported here without torch; a test holds them together."""
REPORTED_SEEDS = range(9000)
"""Seeds that a result may be reported at; from 9000 (``TUNING_SEED``) on they are for tuning."""

SAFE_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}\Z")
"""One part of a path: plain letters, so that it means the same on every system. A method may be named ``flat+``."""

_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Overrides that make the text after them run the other way: with them a name can show as another one."""
_PATH = re.compile(
    r"""(?:^|(?<=[\s"'=,;(\[]))(?:/[A-Za-z_.][^\s"',;)\]]*|~/[^\s"',;)\]]*|[A-Za-z]:[\\/][^\s"']*|\\\\[^\s"']+)"""
    r"""|file://[^\s"']*"""
)


LONGEST_MESSAGE = 1000


def odd_text(text: str, *, lines: bool = False) -> str | None:
    """The fault of a text, as the end of a sentence, or None. ``lines`` lets line breaks and tabs pass."""
    if len(text) > TEXT_LENGTH:
        return f"is longer than {TEXT_LENGTH} characters"
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        if lines and character in "\n\t":
            continue
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cs", "Zl", "Zp") or character in _DIRECTIONS:
            return f"holds the control character U+{ord(character):04X}"
    return None


def printable(text: str) -> str:
    """The text with every control character written out as its number, and cut where it is longer than a message."""
    shown = text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]} …"
    return "".join(f"\\u{ord(one):04x}" if odd_text(one) else one for one in shown)


def machine_path(text: str) -> str | None:
    """The first absolute path in a text (``/home/me/x``, ``~/x``, ``C:\\x``), or None. Web addresses are none."""
    found = _PATH.search(text)
    return found.group() if found else None


def values_of(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """(place, value) of every plain value in nested dicts and lists, keys included as values of their own."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield f"{place}.{key}"[:200].lstrip("."), str(key)
            yield from values_of(value, f"{place}.{key}".lstrip("."))
    elif isinstance(content, list | tuple):
        for index, value in enumerate(content):
            yield from values_of(value, f"{place}.{index}".lstrip("."))
    else:
        yield place, content


def is_finite(value: Any) -> bool:
    """Whether a plain value is no NaN and no infinity."""
    return not isinstance(value, float) or math.isfinite(value)


Printable = Annotated[str, AfterValidator(printable)]
"""A message may quote what a stranger wrote, and must not do to a terminal what that was meant to do."""


class Fault(StrictModel):
    """One thing that is wrong: what, where, and how to fix it."""

    what: Printable
    where: Printable
    """Path inside the submission, with the field where there is one."""
    hint: Printable

    def text(self) -> str:
        """All three, one a line."""
        return f"{self.what}\n  where: {self.where}\n  hint:  {self.hint}"


class Refused(BenchError):
    """Something of a submission cannot be read at all, or is not safe to read."""

    def __init__(self, what: str, *, where: str, hint: str) -> None:
        self.fault = Fault(what=what, where=where, hint=hint)
        super().__init__(self.fault.what, where=self.fault.where, hint=self.fault.hint)


def file_limit(path: str) -> int:
    """Bytes that a file of this name may have."""
    if path.endswith((".yaml", ".py")):
        return WORDS_BYTES
    return RECORD_BYTES if path.endswith(("result.json", "verification.json")) else FILE_BYTES
