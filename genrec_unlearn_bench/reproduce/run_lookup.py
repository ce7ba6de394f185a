"""Finds a run's folder by what a reader has at hand: the folder, its result.json, or the beginning of its key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.pipeline.results import RECORD

__all__ = ["KEY", "PLACES", "find_run", "names_a_run"]

PLACES = (Path("results"), Path("leaderboard/results"), Path("leaderboard/submissions"))
"""Where runs are looked for by key."""

KEY = re.compile(r"[0-9a-f]{4,64}")
"""What may be the beginning of a key: folders carry ten digits of it."""

CARRIED = 10


def names_a_run(text: str) -> bool:
    """Whether the text can only mean a run: a path, or hexadecimal digits."""
    return "/" in text or text.endswith(".json") or Path(text).is_dir() or KEY.fullmatch(text) is not None


def find_run(text: str, places: Sequence[Path] = PLACES) -> Path:
    """The folder of a run.

    Raises UsageError where there is none, where several begin so, or where a folder holds no record.
    """
    path = Path(text)
    if path.is_file():
        path = path.parent
    if path.is_dir():
        if not (path / RECORD).is_file():
            inside = sorted(path.rglob(RECORD))
            raise UsageError(
                f"the folder holds no {RECORD}" + (f", and {len(inside)} folders below it do" if inside else ""),
                where=str(path),
                hint=f"name one of them, such as {inside[0].parent}" if inside else "name the folder of one run",
            )
        return path
    if not KEY.fullmatch(text):
        raise UsageError(
            f"there is no run {text!r}", hint="name its folder, its result.json, or four digits of its key"
        )
    folders = [found for place in places if place.is_dir() for found in sorted(place.rglob(RECORD))]
    matching = [found.parent for found in folders if _key(found).startswith(text[:CARRIED])]
    looked = ", ".join(map(str, places))
    if not matching:
        raise UsageError(
            f"no run's key begins with {text!r}", where=looked, hint="name its folder, or look elsewhere: --results-dir"
        )
    if len(matching) > 1:
        listing = "".join(f"\n  - {folder}" for folder in matching[:8])
        raise UsageError(
            f"{len(matching)} runs have a key that begins with {text!r}:{listing}", hint="name one of them"
        )
    return matching[0]


def _key(record: Path) -> str:
    """The digits of the key in the folder's name."""
    return record.parent.name.rpartition("-")[2]
