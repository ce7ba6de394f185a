"""Grid files: finding one by path or name, its YAML, and its content as models. The user's guide is ``docs/grids.md``.

A context (``expand.Names``) expands names, groups and patterns and checks matches while a file is validated; without
one, names stand for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import resources as package_files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from genrec_unlearn_bench.config import StrictModel, Yaml12Loader, plain_yaml, validation_error
from genrec_unlearn_bench.errors import BenchError, ConfigError, UnknownName
from genrec_unlearn_bench.pipeline.request import RulesetName, RunRequest

T = TypeVar("T")

GRIDS = "genrec_unlearn_bench.tasks.grids"
GROUPS = "groups.yaml"
MAX_SEEDS = 10_000

DEFAULT_SCALE: Literal["default"] = "default"
"""On the axis ``scale``: that of a run without ``--scale``, smoke for the demo's tasks and small for all others."""


def listed(value: Any) -> Any:
    """A list, or a value alone as a list of one."""
    return value if isinstance(value, list | tuple) else [value]


def once(values: Iterable[Any]) -> tuple[Any, ...]:
    """Values without repetitions; those of tuples, which an entry may stand for, in their place."""
    flat = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return tuple({(type(value), repr(value)): value for value in flat}.values())


def expanded(value: Any, info: ValidationInfo) -> Any:
    """What an entry of an axis stands for."""
    try:
        return info.context.expand(info.field_name, value) if info.context is not None else value
    except BenchError as fault:
        raise validation_error(fault) from None


def seeds(value: Any) -> Any:
    """One seed, or a half-open range: ``0:5`` is 0, 1, 2, 3, 4, as in Python."""
    found = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*", str(value))
    if found is None:
        if type(value) is int and value >= 0:
            return value
        raise validation_error(f"a seed or a range such as 0:5 is expected (got {value!r})")
    within = range(int(found[1]), int(found[2]))
    if not 0 < len(within) <= MAX_SEEDS:
        raise validation_error(f"the range {value!r} holds {f'more than {MAX_SEEDS}' if within else 'no'} seeds")
    return tuple(within)


def _on_axes(where: dict[str, tuple[Any, ...]], info: ValidationInfo) -> dict[str, tuple[Any, ...]]:
    """A match, its values expanded like those of the axes it names."""
    if info.context is None:
        return where
    try:
        return {axis: once(tuple(info.context.matched(axis, each)) for each in where[axis]) for axis in where}
    except BenchError as fault:
        raise validation_error(fault) from None


def _beside(place: str | None, info: ValidationInfo) -> str | None:
    return place if place is None or info.context is None else str(info.context.path(place))


Several = Annotated[tuple[T, ...], BeforeValidator(listed), AfterValidator(once), Field(min_length=1)]
"""A list, or a value alone; one that stands twice counts once."""
Names = Several[Annotated[str, AfterValidator(expanded)]]
Where = Annotated[dict[str, Several[Any]], AfterValidator(_on_axes)]
"""Axis or varied field -> values; matches the cells that have one of the values on each axis named."""


RESULT = "result"
"""Last stage of a cell."""
FIELD_SETS = ("method_set", "backbone_set", "sid_set", "measure_set")
VARIED_SETTINGS = ("encoder", "threads", "oracle_seeds", "shadows")


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


class Job(StrictModel):
    """One piece of work: a cell, or a stage that cells share. Plain JSON, so that it can be handed to any executor."""

    name: str
    """Unique within the sweep and the same in every plan: that of the cell, or of the shared stage
    (``original: industrial, tiger, small, seed 0 (3fa2b1c4)``)."""
    request: RunRequest
    """The cell; for a shared stage, one of the cells that need it."""
    until: str = RESULT
    """Name of the stage that the job ends with: ``original``, ``retrain``, …; ``result`` for a cell."""
    key: str = ""
    """Key of that stage; empty for a cell whose data are to be downloaded."""
    needs: tuple[str, ...] = ()
    """Jobs that have to be done first."""
    cells: tuple[str, ...] = ()
    """Cells that cannot be finished without it."""
    resources: Resources = Field(default_factory=Resources)
    seconds: float | None = None
    """Estimated wall-clock; None where it is unknown."""


class Axes(StrictModel):
    """The values that are crossed."""

    task: Names
    method: Names
    backbone: Names = ("tiger",)
    seed: Several[Annotated[Any, BeforeValidator(seeds)]] = (0,)
    scale: Several[Literal["default", "smoke", "small", "paper", "official"]] = (DEFAULT_SCALE,)
    suite: Names = ("core",)
    ruleset: Several[RulesetName] = ("default",)
    requests: Several[Annotated[int, Field(ge=1)]] = (1,)
    measure: Several[Annotated[Any, AfterValidator(expanded)]] = ("",)
    """Measurements of the full suite, joined by ``+``; all where none are named."""

    @model_validator(mode="after")
    def _remember(self, info: ValidationInfo) -> Axes:
        if info.context is not None:
            info.context.remember(self)
        return self


class Settings(StrictModel):
    """Settings of all cells, as ``RunRequest`` has them. What is left out takes the default of ``bench run``."""

    sids: Annotated[str | None, AfterValidator(_beside)] = None
    """Index file with semantic IDs, relative to the grid's folder."""
    encoder: str | None = None
    device: str | None = None
    """``--device`` goes before it."""
    threads: int | None = Field(default=None, ge=1)
    oracle_seeds: int = Field(default=1, ge=0, le=20)
    sasrec: bool | None = None
    shadows: int = Field(default=0, ge=0, le=64)
    backbone_set: dict[str, Any] = Field(default_factory=dict)
    sid_set: dict[str, Any] = Field(default_factory=dict)
    measure_set: dict[str, Any] = Field(default_factory=dict)


class Changes(Settings):
    """What an override sets: any setting, the methods' configurations, and resources."""

    method_set: dict[str, Any] = Field(default_factory=dict)
    """Reference rows have none, and take none."""
    resources: Resources = Field(default_factory=Resources)


class Vary(StrictModel):
    """Fields that are crossed with one another on some of the cells. Blocks add up: a cell that two blocks match comes
    in the variations of both."""

    fields: Annotated[dict[str, Several[Any]], Field(min_length=1)]
    """``method_set.lr`` -> values; a setting by its own name."""
    where: Where = Field(default_factory=dict)
    plain: bool = False
    """Whether the unvaried cell is run, too."""

    @field_validator("fields")
    @classmethod
    def _known(cls, fields: dict[str, Any]) -> dict[str, Any]:
        for name in fields:
            head, _, tail = name.partition(".")
            if not (head in FIELD_SETS and tail) and name not in VARIED_SETTINGS:
                known = [*(f"{each}.{tail or 'FIELD'}" for each in FIELD_SETS), *VARIED_SETTINGS]
                raise validation_error(UnknownName("field", name, known))
        return fields


class Exclude(StrictModel):
    """Cells that are not run."""

    where: Annotated[Where, Field(min_length=1)]
    why: str = ""

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, entry: Any) -> Any:
        """In a file, axes stand beside ``why``."""
        if not isinstance(entry, dict) or "where" in entry:
            return entry
        return {"where": {name: value for name, value in entry.items() if name != "why"}, "why": entry.get("why", "")}


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

    @field_validator("vary", mode="before")
    @classmethod
    def _blocks(cls, value: Any, info: ValidationInfo) -> Any:
        """Fields alone are one block. Matches of all blocks may name the fields of each."""
        blocks = [
            {"fields": block} if isinstance(block, dict) and not {"fields", "where", "plain"} & set(block) else block
            for block in listed(value)
        ]
        for block in blocks:
            fields = block.get("fields") if isinstance(block, dict) else None
            if info.context is not None and isinstance(fields, dict):
                for name, values in fields.items():
                    info.context.values.setdefault(str(name), []).extend(listed(values))
        return blocks


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
        content = plain_yaml(path.read_text(encoding="utf-8"), Yaml12Loader)
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        hint = "give the name of a ready grid (bench ls grids) or the path of a YAML file"
        raise ConfigError([f"the grid file cannot be read: {reason}"], where=where, hint=hint) from None
    except yaml.YAMLError as fault:
        raise ConfigError([f"not valid YAML: {fault}"], where=where) from None
    if not isinstance(content, dict):
        raise ConfigError(["a grid is a mapping with name and axes"], where=where, hint="see docs/grids.md")
    return {str(key): value for key, value in content.items()}
