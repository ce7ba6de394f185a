"""How much a submission may hold. A stranger's files are read on our machines, so every size is bounded before it is
read."""

from __future__ import annotations

import re

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
    "file_limit",
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


def file_limit(path: str) -> int:
    """Bytes that a file of this name may have."""
    if path.endswith((".yaml", ".py")):
        return WORDS_BYTES
    return RECORD_BYTES if path.endswith(("result.json", "verification.json")) else FILE_BYTES
