"""What a grid file says, with every name spelled out. docs/grids.md is the user's account of it.

``read_grid`` reads a file; ``expand`` makes its cells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.data.formats.log_columns import Names
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.grid.asked import Asked
from genrec_unlearn_bench.grid.grid_text import read_text
from genrec_unlearn_bench.grid.reading import Reading
from genrec_unlearn_bench.grid.ready import find_grid, ready_grids
from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.pipeline.request import RulesetName

__all__ = [
    "DEFAULT_SCALE",
    "Axes",
    "Changes",
    "Exclude",
    "GridSpec",
    "Override",
    "ResourceChanges",
    "Settings",
    "Vary",
    "find_grid",
    "read_grid",
    "ready_grids",
]

DEFAULT_SCALE: Literal["default"] = "default"
"""On the axis ``scale``: what a run without ``--scale`` takes, smoke for the demo's tasks and small for all others."""

Where = dict[str, tuple[Any, ...]]
"""Axis or varied field -> the values that are meant; a cell is meant that has one of them on each axis named."""


class Axes(StrictModel):
    """The values that are crossed. A value that stands twice counts once."""

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
    """Measurements of the suite full, joined by ``+``; all where none are named."""


class Settings(StrictModel):
    """What all cells share. What is not said takes the default of ``bench run``."""

    encoder: str | None = None
    """Text encoder."""
    device: str | None = None
    """auto, cpu, cuda …; what the call says goes before it."""
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


class ResourceChanges(StrictModel):
    """Fields of ``Resources``; what is not said stays as it is."""

    cores: int | None = Field(default=None, ge=1)
    gpus: int | None = Field(default=None, ge=0)
    fsdp: bool = False
    memory_mib: int | None = Field(default=None, ge=1)
    minutes: float | None = Field(default=None, gt=0)


class Changes(Settings):
    """What an override sets: any setting, the methods' configurations, and resources."""

    method_set: dict[str, Any] = Field(default_factory=dict)
    """Fields of the methods' configurations; reference rows have none, and take none."""
    resources: ResourceChanges = Field(default_factory=ResourceChanges)


class Vary(StrictModel):
    """Fields that are crossed with one another on some of the cells. Blocks stand beside one another: a cell that two
    blocks mean comes in the variations of both."""

    fields: Annotated[dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]], Field(min_length=1)]
    """``method_set.lr`` -> values; a setting by its own name."""
    where: Where = Field(default_factory=dict)
    plain: bool = False
    """Whether the cell comes as it is, too."""


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
    """A grid, every name spelled out."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]
    description: str = ""
    cost: str = ""
    """What it takes, as far as that is known, in words."""
    axes: Axes
    settings: Settings = Field(default_factory=Settings)
    vary: tuple[Vary, ...] = ()
    exclude: tuple[Exclude, ...] = ()
    overrides: tuple[Override, ...] = ()
    resources: Resources = Field(default_factory=Resources)


def read_grid(place: str, data_dir: Path | None = None) -> GridSpec:
    """The grid of a file, or the ready one of that name.

    Args:
        data_dir: Where datasets lie that were imported, for tasks on them.

    Raises:
        UnknownName: There is no such grid.
        ConfigError: The file is no grid; all faults at once, each with its place and line.
    """
    path = find_grid(place)
    text = read_text(path, str(path))
    reading = Reading(text, Asked(path.resolve().parent, Names(), data_dir))
    content = reading.spelled()
    try:
        spec = parse(GridSpec, content, where=text.where)
    except ConfigError as fault:
        raise ConfigError(reading.all_faults(fault.faults), where=text.where) from None
    if reading.faults:
        raise ConfigError(reading.all_faults(()), where=text.where)
    return spec
