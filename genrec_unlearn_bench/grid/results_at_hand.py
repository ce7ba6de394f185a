"""The results that lie in a results folder, by cell, read only as far as a plan asks.

A cell's results share the beginning of their folders' names. Those of one beginning may still be of different cells
(another suite, another configuration of the method): what tells them apart is what was asked for, which a record keeps
as its command.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.pipeline.results import RECORD, folder_prefix, row_folder
from genrec_unlearn_bench.registry import REFERENCE_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from genrec_unlearn_bench.pipeline.record import Cell

__all__ = ["AtHand", "Results", "asked"]

_PLACES = frozenset({"--data-dir", "--device", "--threads", "--tuned-dir"})
"""Options that say where a cell is run. The rest of a command says what it is."""


@dataclass(frozen=True, eq=False)
class AtHand:
    """One result, as far as a plan reads it.

    Attributes:
        stages: Name -> (key, digest) of every stage that it was built from.
        content: The record, unchecked.
    """

    folder: Path
    key: str
    created: str
    stages: Mapping[str, tuple[str, str]]
    content: Mapping[str, Any]


class Results:
    """Results folders, each listed once."""

    def __init__(self) -> None:
        self._names: dict[Path, dict[str, list[str]]] = {}
        self._read: dict[tuple[Path, str], dict[tuple[str, ...], list[AtHand]]] = {}

    def there(self, root: Path, cell: Cell, key: str) -> Path | None:
        """The folder of the result of that key, if it is there."""
        folder, prefix = row_folder(root, cell), folder_prefix(cell)
        name = f"{prefix}{key[:10]}"
        if name not in self._listed(folder).get(prefix, ()) or not (folder / name / RECORD).is_file():
            return None
        return folder / name

    def any_like(self, root: Path, cell: Cell) -> bool:
        """Whether there are results whose names begin like those of the cell."""
        return folder_prefix(cell) in self._listed(row_folder(root, cell))

    def of_cell(self, root: Path, cell: Cell, command: str) -> Sequence[AtHand]:
        """Results of the cell under whatever key, the newest first."""
        return self._indexed(root, cell).get(asked(command), ())

    def _indexed(self, root: Path, cell: Cell) -> dict[tuple[str, ...], list[AtHand]]:
        folder, prefix = row_folder(root, cell), folder_prefix(cell)
        place = (folder, prefix)
        if place not in self._read:
            found: dict[tuple[str, ...], list[AtHand]] = defaultdict(list)
            for name in self._listed(folder).get(prefix, ()):
                read = _read(folder / name)
                if read is not None:
                    found[asked(read.content["command"])].append(read)
            for results in found.values():
                results.sort(key=lambda result: result.created, reverse=True)
            self._read[place] = dict(found)
        return self._read[place]

    def _listed(self, folder: Path) -> Mapping[str, list[str]]:
        if folder not in self._names:
            found: dict[str, list[str]] = defaultdict(list)
            for name in _subfolders(folder):
                found[f"{name.rpartition('-')[0]}-"].append(name)
            self._names[folder] = dict(found)
        return self._names[folder]


def asked(command: str) -> tuple[str, ...]:
    """What a command asks for: its options in order, without the places. The same for the same cell on any machine.

    A reference row has no configuration of a method, so it is the same row under every ruleset.
    """
    words = shlex.split(command)[2:]
    pairs = list(zip(words[::2], words[1::2], strict=False))
    left_out = _PLACES | ({"--ruleset"} if dict(pairs).get("--method") in REFERENCE_ROWS else set())
    return tuple(sorted(f"{name}={value}" for name, value in pairs if name not in left_out))


def _subfolders(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries if not entry.name.startswith("."))
    except OSError:
        return


def _read(folder: Path) -> AtHand | None:
    """The record of a folder; None where it cannot be read, which is for those to say who read results."""
    try:
        content = json.loads((folder / RECORD).read_bytes())
        stages = {stage["name"]: (stage["key"], stage["digest"]) for stage in content["stages"]}
        content["metrics"] = []
        return AtHand(folder, content["key"], content["created"], stages, {"command": "", **content})
    except (OSError, ValueError, KeyError, TypeError):
        return None
