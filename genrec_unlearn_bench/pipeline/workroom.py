"""What the stages of a run share: the setting, the store, the terminal, and what is already in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.launch import launched
from genrec_unlearn_bench.pipeline.memory import enough_memory
from genrec_unlearn_bench.pipeline.setting import Setting
from genrec_unlearn_bench.pipeline.shelf import Shelf
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.store.keys import KeyContent
from genrec_unlearn_bench.store.store import Compute, StageStore, StoredStage

if TYPE_CHECKING:
    from pydantic import BaseModel

    from genrec_unlearn_bench.backbones.recommender import Ranker
    from genrec_unlearn_bench.pipeline.trained import Trained

__all__ = ["Desk", "Shelf", "Workroom"]

T = TypeVar("T")


class Desk:
    """Access to the store for whatever needs no setting: datasets and tasks."""

    def __init__(self, store: StageStore, progress: Progress, shelf: Shelf | None = None) -> None:
        self.progress = progress
        self._store = store
        self._shelf = shelf or Shelf()

    @property
    def embeddings(self) -> Path:
        """Where a pretrained encoder keeps its rows for all tasks."""
        return self._store.root / "embeddings"

    def stage(
        self, name: str, content: KeyContent, compute: Compute, *, of: str = "", together: bool = False
    ) -> StoredStage:
        """The stage from the store, computed if need be; says which (``of`` what), and how long it took.

        Args:
            together: Of several processes, all take part in computing it, and not the first alone.
        """
        key = f"{name}/{self._store.key(name, content)}"
        known = self._shelf.stages.get(key)
        if known is not None:
            return replace(known, cached=True)
        prepared = self._prepared(name, compute)

        def told(folder: Path) -> Mapping[str, Any] | None:
            with self.progress.computing(name):
                return prepared(folder)

        stored = self._stored(name, content, told, together=together)
        self._shelf.stages[key] = stored
        label = f"{name} of {of}" if of else name
        self.progress.info(f"{label}: from the cache" if stored.cached else f"{label}: {stored.seconds:.1f} s")
        return stored

    def work(self, name: str, content: KeyContent) -> Path:
        """Where the computation of a stage may keep what it needs to go on after a kill."""
        return self._store.work(name, content)

    def load(self, stage: StoredStage, loader: Callable[[Path], T]) -> T:
        """What a stage holds, read once in a session."""
        return self.remember(f"{stage.name}/{stage.key}", lambda: loader(stage.path))

    def remember(self, key: str, make: Callable[[], T]) -> T:
        """An immutable object by key, made once in a session."""
        if key not in self._shelf.objects:
            self._shelf.objects[key] = make()
        found: T = self._shelf.objects[key]
        return found

    def _prepared(self, name: str, compute: Compute) -> Compute:
        """How a stage's work is wrapped; here not at all."""
        return compute

    def _stored(self, name: str, content: KeyContent, compute: Compute, *, together: bool) -> StoredStage:
        return self._store.stage(name, content, compute)


class Workroom(Desk):
    """One cell's access to the store, with the cell's setting."""

    def __init__(self, setting: Setting, store: StageStore, progress: Progress, shelf: Shelf) -> None:
        super().__init__(store, progress, shelf)
        self.setting = setting

    def of_seed(self, seed: int) -> Workroom:
        """The same cell with another training seed, at the same store."""
        request = self.setting.request.model_copy(update={"seed": seed})
        return type(self)(replace(self.setting, request=request), self._store, self.progress, self._shelf)

    def looked_at(self, trained: Trained, load: Callable[[], Ranker] | None = None) -> Ranker:
        """The ranker that is to be measured.

        Args:
            load: Gives it, where it is made from ``trained`` and not that itself.
        """
        return (load or trained.load)()

    def _prepared(self, name: str, compute: Compute) -> Compute:
        """Dropout has no generator of its own: it reads torch's global one. It is therefore set for each stage, and put
        back behind it, so that a stage does not depend on which others were found in the store."""
        import torch

        def seeded(folder: Path) -> Any:
            with torch.random.fork_rng(), self._enough_memory(name):
                torch.manual_seed(derive(self.setting.seed, "stage", name))
                return compute(folder)

        return seeded

    def _stored(self, name: str, content: KeyContent, compute: Compute, *, together: bool) -> StoredStage:
        if launched() == 1:
            return super()._stored(name, content, compute, together=together)
        from genrec_unlearn_bench.pipeline.following import stage_of_all

        return stage_of_all(self._store, name, content, compute, together=together, device=self.setting.device)

    def _enough_memory(self, name: str) -> AbstractContextManager[None]:
        setting = self.setting
        configs: dict[str, BaseModel] = {"--set-backbone": setting.backbone_config}
        if name.startswith("sids"):
            configs = {"--set-sid": setting.sid_config}
        elif name == "unlearned":
            configs = {"--set": setting.method_config}
        elif name in ("evaluation", "validated"):
            configs = {}
        return enough_memory(f"the stage {name!r}", device=setting.device, configs=configs)
