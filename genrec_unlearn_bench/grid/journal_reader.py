"""Follows a sweep's events from another process: each look reads only what was written since the last one."""

from __future__ import annotations

import json
import os
from pathlib import Path

from genrec_unlearn_bench.grid.event import Event
from genrec_unlearn_bench.grid.event_lines import SUFFIX, parsed

__all__ = ["FOLDED", "JournalReader", "replaced_by"]

FOLDED = "folded-"
"""How the names of files begin that stand for others (``compaction``): their first line lists which."""


class JournalReader:
    """Remembers how far each file was read. A last line that is not complete yet is left for the next look."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, int] = {}
        self._replaced: set[str] = set()

    def fresh(self) -> list[Event]:
        """Events since the last call; those of one file in its order, files in none.

        Where files were folded into one between two calls, what they held is given once more.
        """
        content = []
        # A file that was folded into another after the folder was listed is found there at the second look.
        complete = False
        while not complete:
            complete = True
            for name in self._names():
                text = self._more(name)
                if text is None:
                    complete = False
                else:
                    content.append(text)
        return parsed(b"".join(content))

    def _names(self) -> list[str]:
        """Files that count, without those that another stands for."""
        try:
            with os.scandir(self.folder) as found:
                names = {entry.name for entry in found if entry.name.endswith(SUFFIX) and entry.name[0] != "."}
        except FileNotFoundError:
            return []
        for name in names:
            if name.startswith(FOLDED) and name not in self._read:
                self._replaced |= replaced_by(self.folder / name)
        return sorted(names - self._replaced)

    def _more(self, name: str) -> bytes | None:
        """Whole lines of a file that were not read yet; None where it is gone."""
        known = self._read.get(name, 0)
        try:
            with (self.folder / name).open("rb", buffering=0) as file:
                file.seek(known)
                text = file.read()
        except FileNotFoundError:
            return None
        text = text[: text.rfind(b"\n") + 1]
        self._read[name] = known + len(text)
        if name.startswith(FOLDED) and not known:
            text = text.partition(b"\n")[2]
        return text


def replaced_by(folded: Path) -> frozenset[str]:
    """Names of the files that a folded one stands for; empty where it is gone."""
    try:
        with folded.open("rb") as file:
            return frozenset(json.loads(file.readline())["replaces"])
    except FileNotFoundError:
        return frozenset()
