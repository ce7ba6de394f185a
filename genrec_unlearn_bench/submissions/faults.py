"""Faults of a submission, for whoever has to fix them, what none of its texts may hold, and how much there may be.

Every size is bounded before anything is read. Control characters, text that hides or reverses its neighbours and
machine paths are refused; everything else that a submitter writes is plain text, which renderers escape.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import AfterValidator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError, printable

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

_JOINERS = "\u200c\u200d"
"""The only invisible characters that scripts need inside words (Persian, Indic scripts)."""
_PATH = re.compile(
    r"""(?:^|(?<=[\s"'=,;(\[]))(?:/[A-Za-z_.][^\s"',;)\]]*|~/[^\s"',;)\]]*|[A-Za-z]:[\\/][^\s"']*|\\\\[^\s"']+)"""
    r"""|file://[^\s"']*"""
)

LONGEST_MESSAGE = 1000

# Letters that look like Latin ones in most fonts (Unicode TR 39), after lower-casing; and digits that pass for letters.
_LOOK_ALIKE = str.maketrans(
    {
        **dict(zip("авсԁеһіјӏкмнорԛѕтуѵԝхз", "abcdehljlkmhopqstyvwxz", strict=True)),
        **dict(zip("αβγεηικνορτυχω", "abyenlkvoptuxw", strict=True)),
        **dict(zip("0135|!i", "oleslll", strict=True)),
    }
)


def skeleton(text: str) -> str:
    """What a name looks like: two with one skeleton are taken for each other (``TRACER``, ``trасеr``, ``tr-acer``)."""
    plain = unicodedata.normalize("NFKD", text).casefold().translate(_LOOK_ALIKE)
    return "".join(one for one in plain if one.isalnum()).replace("rn", "m").replace("vv", "w")


def odd_text(text: str, *, lines: bool = False) -> str | None:
    """The fault of a text, as the end of a sentence, or None. ``lines`` lets line breaks and tabs pass."""
    if len(text) > TEXT_LENGTH:
        return f"is longer than {TEXT_LENGTH} characters"
    for character in "" if text.isascii() and text.isprintable() else text:
        if lines and character in "\n\t":
            continue
        kind = unicodedata.category(character)
        if kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and character not in _JOINERS):
            what = "invisible" if kind == "Cf" else "control"
            return f"holds the {what} character U+{ord(character):04X}"
    return None


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


def _shown(text: str) -> str:
    return printable(text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]} …")


Printable = Annotated[str, AfterValidator(_shown)]
"""A message may quote what a stranger wrote, and must not do to a terminal what that was meant to do."""


class Fault(StrictModel):
    """One thing that is wrong: what, where (path inside the submission, and field), and how to fix it."""

    what: Printable
    where: Printable
    hint: Printable

    def text(self) -> str:
        return f"{self.what}\n  where: {self.where}\n  hint:  {self.hint}"


Finding = tuple[str, str] | tuple[str, str, str]
"""(where, what), and how to fix it where that is not the check's own hint."""


def as_faults(found: Iterable[Finding], hint: str) -> Iterator[Fault]:
    for where, what, *own in found:
        yield Fault(what=what, where=where, hint=own[0] if own else hint)


class Refused(BenchError):
    """Something of a submission cannot be read at all, or is not safe to read."""

    def __init__(self, what: str, *, where: str, hint: str) -> None:
        self.fault = Fault(what=what, where=where, hint=hint)
        super().__init__(self.fault.what, where=self.fault.where, hint=self.fault.hint)


def file_limit(path: str) -> int:
    if path.endswith((".yaml", ".py")):
        return WORDS_BYTES
    return RECORD_BYTES if path.endswith(("result.json", "verification.json")) else FILE_BYTES
