"""One digest for the code of a stage, and the ledger of code that was proven to do the same.

Moving a function or renaming a variable changes what a source says and not what it computes, and no digest of sources
can know that. ``equal_code.json`` does: it names, for the digest of a stage's code, the older one whose outcomes it was
seen to repeat bit for bit. Keys are made of the older one, so they stay. ``bench cache prove`` alone writes it, and
every entry says how many stages were compared and on what. An entry nobody can check is worth nothing, so the file is
reviewed like code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from genrec_unlearn_bench.config import StrictModel

__all__ = ["LEDGER", "EqualCode", "code_digest", "combined", "ledger_text", "read_ledger"]

LEDGER = Path(__file__).with_name("equal_code.json")


class EqualCode(StrictModel):
    """Two listings of code with the same outcomes."""

    code: str
    """Digest of the newer listing."""
    equals: str
    """Digest of the older one, by which keys know both; itself in no entry's ``code``."""
    stages: tuple[str, ...]
    """Kinds of stages that were computed with both."""
    compared: int
    """How many stages; each came out the same to the bit."""
    on: tuple[str, ...]
    """Cells they belong to: ``task/backbone/method/scale``."""


class _Ledger(StrictModel):
    entries: tuple[EqualCode, ...] = ()


def combined(listing: Mapping[str, str]) -> str:
    """blake2b-256 of a listing of modules and their digests, as they are."""
    text = json.dumps(dict(listing), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=32).hexdigest()


def code_digest(listing: Mapping[str, str]) -> str:
    """What a key holds of its code: the digest of the listing, or that of older code with the same outcomes."""
    digest = combined(listing)
    return _known().get(digest, digest)


def read_ledger(path: Path | None = None) -> tuple[EqualCode, ...]:
    """All entries. Raises ValidationError or OSError where the file that ships with the suite is broken."""
    return _Ledger.model_validate_json((path or LEDGER).read_bytes()).entries


def ledger_text(entries: Iterable[EqualCode]) -> str:
    """The file's content: sorted, so that two people's entries merge."""
    ordered = sorted(entries, key=lambda entry: (entry.equals, entry.code))
    return _Ledger(entries=tuple(ordered)).model_dump_json(indent=2) + "\n"


@cache
def _known() -> Mapping[str, str]:
    return {entry.code: entry.equals for entry in read_ledger()}
