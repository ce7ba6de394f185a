"""Stages as data, and the loop that makes what is missing: keys are known before anything is computed or loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.pipeline.error_mapping import enough_memory
from genrec_unlearn_bench.pipeline.results import LOSSES
from genrec_unlearn_bench.progress import Progress, launched
from genrec_unlearn_bench.seeding import derive, generators_kept
from genrec_unlearn_bench.store.manifest import StoredStage, content_key, plain

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.distributed import Processes
    from genrec_unlearn_bench.backbones.recommender import Ranker
    from genrec_unlearn_bench.store.store import StageStore

Compute = Callable[["StageContext", "Inputs", Path], Mapping[str, Any] | None]
"""Writes into the folder; may return facts (seconds, memory), which the manifest keeps and no digest covers."""
Load = Callable[["Inputs", Path], Any]

_NOTES = "notes.json"

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Stage:
    """One artefact of a run and how to make it. Building a stage computes nothing and reads no upstream artefact.

    Attributes:
        name: Kind of the artefact, and its folder in the store.
        version: Raised by hand when the outcome can change; ``tests/pipeline/test_versions.py`` asks for it.
        config: All settings, defaults filled in. Configuration models stand for their fields.
        inputs: Upstream stages by role.
        files: Digests of outside content: dataset files, a checkpoint, a method's source file.
        load: Reads the artefact; by default its folder.
        seed: Of torch's global generator (dropout) around ``compute``, derived with the stage's name; None where
            nothing is drawn from it. Part of the key through ``config`` where it matters.
        keep: Keep the loaded object in memory for the session; only for what nobody changes.
        distributed: All processes of a launch compute it together, instead of the first alone.
        label: Name in progress lines and in the record; ``name`` by default.
    """

    name: str
    version: int
    config: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Stage] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    compute: Compute = lambda context, inputs, folder: None
    load: Load = lambda inputs, folder: folder
    seed: int | None = None
    keep: bool = False
    distributed: bool = False
    label: str = ""

    @cached_property
    def recipe(self) -> dict[str, Any]:
        """Everything the key depends on, as plain JSON values; stored with the artefact as ``key.json``."""
        return {
            "stage": self.name,
            "version": self.version,
            "config": plain(self.config),
            "files": dict(self.files),
            "inputs": {role: stage.key for role, stage in self.inputs.items()},
        }

    @cached_property
    def key(self) -> str:
        return content_key(self.recipe)

    @property
    def title(self) -> str:
        return self.label or self.name


def topological(goals: Iterable[Stage]) -> list[Stage]:
    """All stages that the goals depend on and the goals themselves, each key once, inputs first."""
    found: dict[str, Stage] = {}

    def visit(stage: Stage) -> None:
        for one in stage.inputs.values():
            if one.key not in found:
                visit(one)
        found[stage.key] = stage

    for goal in goals:
        visit(goal)
    return list(found.values())


def by_title(goal: Stage) -> dict[str, Stage]:
    """A stage and all it depends on by title, inputs first."""
    found: dict[str, Stage] = {}
    for stage in topological([goal]):
        # Of a row that is a reference as well, the record speaks of the row.
        found.setdefault(stage.title if stage.title not in found else f"{stage.title} ({stage.key[:8]})", stage)
    return found


class StageLog(Progress):
    """Steps and notes of one stage; what is to be shown goes to the run's progress, ``outer``."""

    def write(self, folder: Path) -> None:
        lines = [{"stage": step.stage, "step": step.step, "losses": step.losses} for step in self.steps]
        steps = len(self.steps) if self.optimiser_steps is None else self.optimiser_steps
        write_log(folder, lines, {"diverged": self.diverged, "steps": steps, "notes": self.notes})


def write_log(folder: Path, lines: Iterable[Mapping[str, Any]], notes: Mapping[str, Any]) -> None:
    """Write ``losses.jsonl``, one line a step with ``stage``, ``step`` and ``losses``, and ``notes.json``; numbers that
    JSON does not have become null."""
    text = "".join(f"{json.dumps(_finite(line), allow_nan=False)}\n" for line in lines)
    (folder / LOSSES).write_text(text, encoding="utf-8")
    write_json(folder / _NOTES, _finite(notes))


def read_notes(folder: Path) -> dict[str, Any]:
    """``notes.json`` of a stage: ``diverged``, ``steps`` and ``notes``."""
    content: dict[str, Any] = json.loads((folder / _NOTES).read_text(encoding="utf-8"))
    return content


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass
class SessionCache:
    """Stages and loaded objects of one session, so that ten methods in one call read the dataset once.

    Recommenders are loaded anew each time: a method that forgets to clone would spoil the next one's original.
    """

    stages: dict[str, StoredStage] = field(default_factory=dict)
    objects: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class StageContext:
    """Context of one run: store, progress, in-memory cache, and keys of the stages that this run ``made``.

    Where a launcher started several processes, all of them run the same stages in step: the first owns the store, so
    what it finds or misses holds for all, and a stage is computed by the first alone unless it is ``distributed``.
    """

    store: StageStore
    progress: Progress = field(default_factory=Progress)
    cache: SessionCache = field(default_factory=SessionCache)
    device: str = "cpu"
    made: set[str] = field(default_factory=set)
    _alone: bool = False
    """Whether this is the first process, computing a stage that the others wait for."""

    @cached_property
    def processes(self) -> Processes:
        from genrec_unlearn_bench.backbones.distributed import Processes

        return Processes(self.device)

    @property
    def _in_step(self) -> bool:
        return launched() > 1 and not self._alone

    def log(self, stage: Stage | None = None) -> StageLog:
        """A log for one stage; given the stage, with a folder to resume from after a kill."""
        return StageLog(outer=self.progress, work=self.store.work(stage.name, stage.key) if stage else None)

    def find(self, stage: Stage) -> StoredStage | None:
        """The stored stage, verified once in a session; None where it has to be made."""
        if not self._in_step:
            return self._look_up(stage)
        found = self._look_up(stage) if self.processes.first else None
        return (found or self._seen(stage)) if self.processes.agree(found is not None) else None

    def make(self, stage: Stage) -> StoredStage:
        """Compute a stage whose inputs are there, and store it."""
        make = partial(self.store.make, stage.name, stage.key, stage.recipe)
        made = self._made_in_step(stage, make) if self._in_step else make(partial(self._compute, stage))
        if not made.cached:
            self.made.add(stage.key)
        self.cache.stages[stage.key] = replace(made, cached=True)
        self.progress.info(f"{stage.title}: from the cache" if made.cached else f"{stage.title}: {made.seconds:.1f} s")
        return made

    def stored(self, stage: Stage) -> StoredStage:
        """The stored stage, made if it is missing. Each process looks for itself."""
        return self._look_up(stage) or materialise(stage, self)

    def load(self, stage: Stage) -> Any:
        """The object that a stored stage holds; torch's global generator is left as it was."""

        def load() -> Any:
            with _generators_kept(stage, self.device):
                return stage.load(Inputs(stage, self), self.stored(stage).path)

        return self.remember(f"{stage.name}/{stage.key}", load) if stage.keep else load()

    def remember(self, key: str, make: Callable[[], T]) -> T:
        """The object of a key, made once in a session."""
        if key not in self.cache.objects:
            self.cache.objects[key] = make()
        found: T = self.cache.objects[key]
        return found

    def _look_up(self, stage: Stage) -> StoredStage | None:
        found = self.cache.stages.get(stage.key)
        if found is None:
            found = self.store.find(stage.name, stage.key)
            if found is not None:
                self.cache.stages[stage.key] = found
                self.progress.info(f"{stage.title}: from the cache")
        return found

    def _seen(self, stage: Stage) -> StoredStage:
        found = self._look_up(stage)
        if found is None:
            raise StorageError(
                f"process {self.processes.index} does not see the stage {stage.name!r} that the first has stored",
                where=str(self.store.root),
                hint="choose a --cache-dir that all processes share",
            )
        return found

    def _compute(self, stage: Stage, folder: Path) -> Mapping[str, Any] | None:
        memory = enough_memory(f"the stage {stage.name!r}", device=self.device)
        with self.progress.computing(stage.name), _generators_kept(stage, self.device), memory:
            if stage.seed is not None:
                import torch

                # Dropout has no generator of its own. Set for each stage, its outcome does not depend on which others
                # were found in the store.
                torch.manual_seed(derive(stage.seed, "stage", stage.name))
            return stage.compute(self, Inputs(stage, self), folder)

    def _made_in_step(self, stage: Stage, make: Callable[..., StoredStage]) -> StoredStage:
        """Make a stage in several processes: the first writes, and what others compute along is thrown away.

        A process that fails does not say so to the others: it ends, and the launcher ends them.
        """
        processes = self.processes
        if not processes.first:
            while processes.agree(False):
                with TemporaryDirectory() as folder:
                    self._compute(stage, Path(folder))
            return self._seen(stage)

        def compute(folder: Path) -> Mapping[str, Any] | None:
            if stage.distributed:
                processes.agree(True)
                return self._compute(stage, folder)
            self._alone = True
            try:
                return self._compute(stage, folder)
            finally:
                self._alone = False

        made = make(compute)
        processes.agree(False)
        return made


def _generators_kept(stage: Stage, device: str) -> AbstractContextManager[None]:
    """Keep torch's global generators, which stages with a seed draw from."""
    return nullcontext() if stage.seed is None else generators_kept(device)


class Inputs:
    """The stored inputs of a stage by role, loaded when asked for."""

    def __init__(self, stage: Stage, context: StageContext) -> None:
        self.stage = stage
        self.context = context

    def __contains__(self, role: str) -> bool:
        return role in self.stage.inputs

    def __getitem__(self, role: str) -> Any:
        return self.context.load(self.stage.inputs[role])

    def stored(self, role: str) -> StoredStage:
        return self.context.stored(self.stage.inputs[role])

    def model(self, role: str) -> Ranker:
        """A ranker of its own, drawn from the stage's generator before its weights are read: what the stage draws
        afterwards depends on it."""
        upstream = self.stage.inputs[role]
        found: Ranker = upstream.load(Inputs(upstream, self.context), self.context.stored(upstream).path)
        return found


def materialise(goal: Stage, context: StageContext) -> StoredStage:
    """Make a stage and what it needs; nothing is made that only served a stage which is in the store."""
    seen: set[str] = set()

    def visit(stage: Stage) -> None:
        if stage.key in seen:
            return
        seen.add(stage.key)
        if context.find(stage) is None:
            for upstream in stage.inputs.values():
                visit(upstream)
            context.make(stage)

    visit(goal)
    return context.cache.stages[goal.key]
