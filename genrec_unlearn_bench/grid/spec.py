"""Grid files: finding one by path or name, its YAML, and its content as models. The user's guide is ``docs/grids.md``.

Scalars follow YAML 1.2's core schema. YAML 1.1, which most Python libraries implement, would read the seeds ``1:5`` as
65 (a number to the base 60), the value ``off`` as false and ``1e-4`` as a string.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from importlib import resources as package_files
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field
from yaml.constructor import ConstructorError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import ConfigError, UnknownName
from genrec_unlearn_bench.pipeline.request import RulesetName

GRIDS = "genrec_unlearn_bench.tasks.grids"
GROUPS = "groups.yaml"

DEFAULT_SCALE: Literal["default"] = "default"
"""On the axis ``scale``: that of a run without ``--scale``, smoke for the demo's tasks and small for all others."""

Where = dict[str, tuple[Any, ...]]
"""Axis or varied field -> values; matches the cells that have one of the values on each axis named."""


class Resources(StrictModel):
    """What a job may use. Never part of a stage's key: results do not depend on it, except for ``threads``."""

    cores: int = Field(default=1, ge=1)
    """CPU cores, which is also the number of threads unless the request says otherwise."""
    gpus: int = Field(default=0, ge=0)
    """GPUs; more than one starts as many processes through accelerate."""
    fsdp: bool = False
    """Whether the blocks of the model are split over its GPUs (accelerate's FSDP), for trainings of ``mor`` that one
    GPU cannot hold."""
    memory_mib: int | None = Field(default=None, ge=1)
    """Resident memory. Jobs start together only if the machine has capacity for all of them, and a job that grows
    beyond its limit is stopped. None: not limited, and guessed by scale."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall-clock after which it is stopped; None: not limited."""


class Axes(StrictModel):
    """The values that are crossed; a value that stands twice counts once."""

    task: Annotated[tuple[str, ...], Field(min_length=1)]
    method: Annotated[tuple[str, ...], Field(min_length=1)]
    backbone: Annotated[tuple[str, ...], Field(min_length=1)] = ("tiger",)
    seed: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    scale: Annotated[tuple[Literal["default", "smoke", "small", "paper", "official"], ...], Field(min_length=1)] = (
        DEFAULT_SCALE,
    )
    suite: Annotated[tuple[str, ...], Field(min_length=1)] = ("core",)
    ruleset: Annotated[tuple[RulesetName, ...], Field(min_length=1)] = ("default",)
    requests: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)] = (1,)
    measure: tuple[str, ...] = ("",)
    """Measurements of the full suite, joined by ``+``; all where none are named."""


class Settings(StrictModel):
    """Settings of all cells. What is left out takes the default of ``bench run``."""

    encoder: str | None = None
    """Text encoder."""
    device: str | None = None
    """auto, cpu, cuda …; ``--device`` goes before it."""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads of a cell."""
    oracle_seeds: int = Field(default=1, ge=0, le=20)
    """Retrained models the gap is taken against."""
    shadows: int = Field(default=0, ge=0, le=64)
    """Shadow models for U-LiRA."""
    backbone_set: dict[str, Any] = Field(default_factory=dict)
    """Fields of the backbone's configuration; dots go down a level."""
    sid_set: dict[str, Any] = Field(default_factory=dict)
    """Fields of the tokenizer's configuration."""
    measure_set: dict[str, Any] = Field(default_factory=dict)
    """Fields of the measurements' configurations: ``relearning.lr``."""


class Changes(Settings):
    """What an override sets: any setting, the methods' configurations, and resources."""

    method_set: dict[str, Any] = Field(default_factory=dict)
    """Fields of the methods' configurations; reference rows have none, and take none."""
    resources: Resources = Field(default_factory=Resources)
    """Only the fields that are named here."""


class Vary(StrictModel):
    """Fields that are crossed with one another on some of the cells. Blocks add up: a cell that two blocks match comes
    in the variations of both."""

    fields: Annotated[dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]], Field(min_length=1)]
    """``method_set.lr`` -> values; a setting by its own name."""
    where: Where = Field(default_factory=dict)
    plain: bool = False
    """Whether the unvaried cell is run, too."""


class Exclude(StrictModel):
    """Cells that are not run."""

    where: Annotated[Where, Field(min_length=1)]
    why: str = ""


class Override(StrictModel):
    """Changes for some cells; of two that set the same field, the later one wins."""

    where: Annotated[Where, Field(min_length=1)]
    set: Changes
    why: str = ""


class GridSpec(StrictModel):
    """A grid, every name expanded."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]
    description: str = ""
    cost: str = ""
    """Time and hardware it takes, in prose."""
    axes: Axes
    settings: Settings = Field(default_factory=Settings)
    vary: tuple[Vary, ...] = ()
    exclude: tuple[Exclude, ...] = ()
    overrides: tuple[Override, ...] = ()
    resources: Resources = Field(default_factory=Resources)


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
    files = sorted(Path(str(entry)) for entry in package_files.files(GRIDS).iterdir())
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
        raise ConfigError([f"not valid YAML: {fault}"], where=where) from None
    except RecursionError:
        raise ConfigError(["not a grid: nested too deeply"], where=where) from None
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        raise ConfigError(["a grid is a mapping with name and axes"], where=where, hint="see docs/grids.md")
    return {str(key): value for key, value in content.items()}
