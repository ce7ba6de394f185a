"""Grid files: finding one by path or name, reading its YAML, and naming the line of any place in it.

Scalars follow YAML 1.2's core schema. YAML 1.1, which most Python libraries implement, would read the seeds ``1:5`` as
65 (a number to the base 60), the value ``off`` as false and ``1e-4`` as a string.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from genrec_unlearn_bench.errors import ConfigError, UnknownName

GRIDS = "genrec_unlearn_bench.tasks.grids"
GROUPS = "groups.yaml"

MAX_BYTES = 1 << 20
"""A grid file is a page or two of text; anything larger was given by mistake."""

_SCALARS = (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:merge", r"<<", "<"),
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(node.value))


def ready_grids() -> dict[str, Path]:
    """The grids that ship with the package, by name."""
    files = sorted(Path(str(entry)) for entry in resources.files(GRIDS).iterdir())
    return {path.stem: path for path in files if path.suffix == ".yaml" and path.name != GROUPS}


def find_grid(place: str) -> Path:
    """Find the file of a grid by its path, or by the name of one that ships. Raises UnknownName."""
    ready = ready_grids()
    if place in ready:
        return ready[place]
    if place.endswith((".yaml", ".yml")) or Path(place).is_file():
        return Path(place)
    raise UnknownName("grid", place, ready)


@dataclass(frozen=True)
class GridText:
    """A grid file as plain values, with the line of each.

    Attributes:
        where: The file, as messages name it.
    """

    where: str
    content: dict[str, Any]
    root: yaml.Node

    def locate(self, place: Sequence[str | int]) -> str:
        """``axes.backbone[2] (line 7)``, for a path of keys and positions from the top."""
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        return f"{path} (line {self._line(place)})"

    def _line(self, place: Sequence[str | int]) -> int:
        """The line of a place, or of the nearest node around it that exists; the first line is 1."""
        node = self.root
        for part in place:
            found = _child(node, part)
            if found is None:
                break
            node = found
        return node.start_mark.line + 1


def read_text(path: Path, where: str) -> GridText:
    """Read a grid file. Raises ConfigError where it is not a YAML mapping, or has a key twice."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError([f"a grid file has a page of text, this one {path.stat().st_size} bytes"], where=where)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        raise ConfigError(
            [f"the grid file cannot be read: {reason}"],
            where=where,
            hint="give the name of a ready grid (bench ls grids) or the path of a YAML file",
        ) from None
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        content = loader.construct_document(root) if root is not None else None
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(fault, "problem", None) or "it cannot be parsed"
        raise ConfigError([f"not valid YAML: {problem}"], where=f"{where}{line}") from None
    except RecursionError:
        raise ConfigError(["not a grid: nested too deeply"], where=where) from None
    finally:
        loader.dispose()
    if root is None or not isinstance(content, dict):
        raise ConfigError(["a grid is a mapping with name and axes"], where=where, hint="see docs/grids.md")
    repeated = [f"line {line}: the key {key!r} stands twice" for key, line in _repeated_keys(root)]
    if repeated:
        raise ConfigError(repeated, where=where)
    return GridText(where, {str(key): value for key, value in content.items()}, root)


def _child(node: yaml.Node, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode):
        return node.value[part] if isinstance(part, int) and part < len(node.value) else None
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == str(part)), None)
    return None


def _repeated_keys(root: yaml.Node) -> Iterator[tuple[str, int]]:
    """Keys that a mapping has more than once, with their lines."""
    waiting, visited = [root], set()
    while waiting:
        node = waiting.pop()
        # An alias stands for a node that was visited before, which may even contain the alias itself.
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if key.value in seen:
                    yield str(key.value), key.start_mark.line + 1
                seen.add(str(key.value))
                waiting.append(value)
