"""The names on a grid's axes: groups and patterns spelled out, files found, and unknown ones told with the nearest.

Which methods a group has is content (``grids/groups.yaml``), not code. Imports neither torch nor any method.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Literal

from genrec_unlearn_bench.backbones.catalogue import backbones
from genrec_unlearn_bench.config import StrictModel, parse_yaml
from genrec_unlearn_bench.data.formats.log_columns import Names
from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation.suites import suites
from genrec_unlearn_bench.grid.ready import GRIDS, GROUPS
from genrec_unlearn_bench.registry import Entry, methods

__all__ = ["Asked", "groups", "is_pattern"]


class Kind(StrictModel):
    """All methods of a kind, as ``bench ls methods`` names it."""

    kind: Literal["reference", "method", "variant"]


class Groups(StrictModel):
    """The file of groups."""

    methods: dict[str, tuple[str, ...] | Kind]


def groups(known: Mapping[str, Entry] | None = None) -> dict[str, tuple[str, ...]]:
    """The groups of methods by name, each in the order of ``bench ls methods`` or of its list.

    Raises:
        ConfigError: The file is broken.
        UnknownName: A group lists a method that there is not.
    """
    known = methods() if known is None else known
    text = (resources.files(GRIDS) / GROUPS).read_text(encoding="utf-8")
    out = {}
    for name, content in parse_yaml(Groups, text, where=f"grids/{GROUPS}").methods.items():
        if isinstance(content, Kind):
            content = tuple(each for each, entry in known.items() if _kind(entry) == content.kind)
        for each in content:
            if each not in known:
                raise UnknownName("method", each, known)
        out[name] = content
    return out


def is_pattern(text: str) -> bool:
    """Whether a name stands for all that it matches (``tracer-*``)."""
    return "*" in text or "?" in text


@dataclass(frozen=True)
class Asked:
    """Spells out what a grid file names.

    Attributes:
        folder: The file's own: paths of tasks and methods are relative to it.
        data_dir: Where datasets lie that were imported.
        names: What was found so far.
    """

    folder: Path
    names: Names
    data_dir: Path | None = None

    def spelled(self, axis: str, text: str) -> tuple[str, ...]:
        """What one entry of an axis stands for, as a request names it. Raises BenchError for what there is not."""
        if axis == "method":
            return self._methods(text)
        if axis == "backbone":
            known = backbones()
            return tuple(known) if text == "all" else _among("backbone", text, known)
        if axis == "task":
            return self._tasks(text)
        if axis == "suite":
            return _among("suite", text, suites())
        return (text,)

    def shown(self, axis: str, text: str) -> str:
        """The name that tables show: a task or method out of a file goes by the name that it gives itself."""
        if axis == "task":
            return self.names.task(text, self.data_dir).name
        return self.names.method(text).name if axis == "method" else text

    def _methods(self, text: str) -> tuple[str, ...]:
        known = self.names.known_methods()
        if text.startswith("@"):
            found = groups(known)
            if text[1:] not in found:
                raise UnknownName("group", text, [f"@{name}" for name in found])
            return found[text[1:]]
        if ".py" in text:
            place, _, name = text.rpartition(":") if not text.endswith(".py") else (text, "", "")
            path = f"{(self.folder / Path(place).expanduser()).resolve()}{f':{name}' if name else ''}"
            self.names.method(path)
            return (path,)
        return _among("method", text, known)

    def _tasks(self, text: str) -> tuple[str, ...]:
        if text.endswith((".yaml", ".yml")):
            path = str((self.folder / Path(text).expanduser()).resolve())
            self.names.task(path)
            return (path,)
        if is_pattern(text):
            return _among("task", text, self.names.known_tasks())
        self.names.task(text, self.data_dir)
        return (text,)


def _among(kind: str, text: str, known: Mapping[str, object]) -> tuple[str, ...]:
    found = tuple(name for name in known if fnmatchcase(name, text)) if is_pattern(text) else (text,)
    if not found or (not is_pattern(text) and text not in known):
        raise UnknownName(kind, text, known)
    return found


def _kind(entry: Entry) -> str:
    return "variant" if entry.variant_of else entry.kind
