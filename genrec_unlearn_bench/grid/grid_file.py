"""Grid files: finding one by path or name, and reading its YAML.

Scalars follow YAML 1.2's core schema. YAML 1.1, which most Python libraries implement, would read the seeds ``1:5`` as
65 (a number to the base 60), the value ``off`` as false and ``1e-4`` as a string.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

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

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping; PyYAML alone would take the last of two equal keys."""
        seen: set[str] = set()
        for name, mark in [(str(key.value), key.start_mark) for key, _ in node.value]:
            if name in seen:
                raise ConstructorError(None, None, f"the key {name!r} stands twice", mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


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


def read_content(path: Path) -> dict[str, Any]:
    """Read a grid file as plain values. Raises ConfigError where it is not a YAML mapping, or has a key twice."""
    where = str(path)
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
        content = loader.get_single_data()
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(fault, "problem", None) or "it cannot be parsed"
        raise ConfigError([f"not valid YAML: {problem}"], where=f"{where}{line}") from None
    except RecursionError:
        raise ConfigError(["not a grid: nested too deeply"], where=where) from None
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        raise ConfigError(["a grid is a mapping with name and axes"], where=where, hint="see docs/grids.md")
    return {str(key): value for key, value in content.items()}
