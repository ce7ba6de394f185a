"""A stage as data: what it is made from and how, with a key that is known before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.store.manifest import content_key, plain

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["Compute", "Load", "Stage", "topological"]

Compute = Callable[[Any, Any, Path], Mapping[str, Any] | None]
"""Called with the ``StageContext``, the stage's ``Inputs`` (``pipeline.context``) and the folder to write into. May
return facts about the computation itself (seconds, memory), which the manifest keeps and no digest covers."""

Load = Callable[[Any, Path], Any]
"""Called with the stage's ``Inputs`` and its folder."""


def _nothing(context: Any, inputs: Any, folder: Path) -> None:
    """Compute nothing."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One artefact of a run and how to make it. Building a stage computes nothing and reads no upstream artefact.

    Attributes:
        name: Kind of the artefact, and its folder in the store.
        version: Raised by hand when the outcome can change; ``tests/pipeline/test_versions.py`` asks for it.
        config: Everything the stage is asked with, defaults filled in. Configuration models stand for their fields.
        inputs: Upstream stages by role.
        files: Digests of outside content: dataset files, a checkpoint, a method's source file.
        compute: Makes the artefact.
        load: Reads it, by default its folder; given the inputs as well, as an artefact need not repeat what they hold.
        seed: Seed of torch's global generator (dropout) around ``compute``, derived with the stage's name; None where
            nothing is drawn from it. Part of the key through ``config`` where it matters.
        keep: Whether the loaded object is kept in memory for the session: for what nobody changes.
        distributed: Whether all processes of a launch compute it together, instead of the first alone.
        label: What progress and the record call it; the name by default.
        knobs: Option of the command line -> configuration it changes, for advice where memory runs out.
    """

    name: str
    version: int
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Stage] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    compute: Compute = _nothing
    load: Load = lambda inputs, folder: folder
    seed: int | None = None
    keep: bool = False
    distributed: bool = False
    label: str = ""
    knobs: Mapping[str, BaseModel] = field(default_factory=dict)

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """Everything the key depends on, as plain JSON values; stored beside the artefact as ``key.json``."""
        return {
            "stage": self.name,
            "version": self.version,
            "config": plain(self.config),
            "files": dict(self.files),
            "inputs": {role: stage.key for role, stage in self.inputs.items()},
        }

    @cached_property
    def key(self) -> str:
        """blake2b-256 over the recipe, 64 hex digits; knows its inputs by their keys."""
        return content_key(self.recipe)

    @property
    def title(self) -> str:
        """The label, or the name where it has none."""
        return self.label or self.name


def topological(goals: Iterable[Stage]) -> Iterator[Stage]:
    """All stages that the goals depend on and the goals themselves, each key once, inputs first."""
    seen: set[str] = set()

    def visit(stage: Stage) -> Iterator[Stage]:
        if stage.key in seen:
            return
        seen.add(stage.key)
        for one in stage.inputs.values():
            yield from visit(one)
        yield stage

    for goal in goals:
        yield from visit(goal)
