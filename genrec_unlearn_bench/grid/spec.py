"""The content of a grid file, with every name expanded. The user's guide to it is ``docs/grids.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.grid.grid_file import find_grid, read_content
from genrec_unlearn_bench.grid.reader import AxisNames, GridReader
from genrec_unlearn_bench.pipeline.request import RulesetName
from genrec_unlearn_bench.pipeline.resolve import Catalogue

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


def read_grid(place: str, data_dir: Path | None = None) -> GridSpec:
    """Read the grid of a file, or the ready one of that name.

    Args:
        data_dir: Where imported datasets lie, for tasks on them.

    Raises:
        UnknownName: There is no such grid.
        ConfigError: The file is no grid; all faults at once, each with its place.
    """
    path = find_grid(place)
    reader = GridReader(read_content(path), AxisNames(path.resolve().parent, Catalogue(), data_dir))
    try:
        spec = parse(GridSpec, reader.normalised(), where=str(path))
    except ConfigError as fault:
        raise ConfigError(reader.all_faults(fault.faults), where=str(path)) from None
    if reader.faults:
        raise ConfigError(reader.all_faults(()), where=str(path))
    return spec
