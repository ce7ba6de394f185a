"""Walks the stages of a cell as a run does, and computes nothing: what a stage's key is follows from what is stored
upstream of it, so the walk goes as far as the first stage that is not there.

It is the run's own code that walks (``pipeline.lay_footing``, ``pipeline.make_row``), in a room that finds stages by
their manifests and refuses to make one. Nothing is written, moved or waited for.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from genrec_unlearn_bench.errors import BenchError, CorruptArtefact
from genrec_unlearn_bench.evaluation.likelihood_scoring import score
from genrec_unlearn_bench.grid.fetching import to_be_fetched
from genrec_unlearn_bench.grid.light_store import Keys, LightStore
from genrec_unlearn_bench.grid.settled import Settler, recommender_of
from genrec_unlearn_bench.grid.stand_in import stand_in
from genrec_unlearn_bench.pipeline.pipeline import Footing, lay_footing, make_row
from genrec_unlearn_bench.pipeline.resolve import cell_of
from genrec_unlearn_bench.pipeline.shelf import Shelf
from genrec_unlearn_bench.pipeline.stages.evaluate import Scores
from genrec_unlearn_bench.pipeline.trained import Trained, oracle
from genrec_unlearn_bench.pipeline.workroom import Workroom
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StoredStage
from genrec_unlearn_bench.tuning.rulesets import Ruling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from genrec_unlearn_bench.backbones.recommender import Ranker
    from genrec_unlearn_bench.pipeline.record import Cell
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.setting import Setting
    from genrec_unlearn_bench.store.keys import KeyContent
    from genrec_unlearn_bench.store.store import Compute, StageStore

__all__ = ["Probe", "Shared", "StageMissing", "Visit", "Walk"]

T = TypeVar("T")

_TABLES = frozenset({"sids", "sids-full", "original", "retrain-full"})
"""Stages whose tables of semantic IDs are not kept in memory as they are."""


class StageMissing(Exception):
    """A stage that is not there; the walk ends at it.

    Attributes:
        content: What its key is made of.
        label: What it is the stage of, where one name is used for several (evaluations).
    """

    def __init__(self, name: str, key: str, content: KeyContent, label: str = "") -> None:
        super().__init__(name)
        self.name = name
        self.key = key
        self.content = content
        self.label = label


@dataclass(frozen=True, eq=False)
class Visit:
    """A stage that a walk came by.

    Attributes:
        stage: None where it is not there.
    """

    name: str
    of: str
    key: str
    content: KeyContent
    stage: StoredStage | None


@dataclass(frozen=True, eq=False)
class Shared:
    """What a walk found of the stages that a cell shares with other methods.

    Attributes:
        footing: None where something before the oracles is missing. Holds the oracles that are there.
        oracles: Of each number, whether it is there.
        missing: Stages that are not there, the first upstream.
        fault: Why the cells cannot be run at all: data that are not there, or of no use.
        visits: In the order of the walk.
    """

    footing: Footing | None
    oracles: tuple[bool, ...]
    missing: tuple[StageMissing, ...]
    fault: BenchError | None
    visits: tuple[Visit, ...]


@dataclass(frozen=True, eq=False)
class Walk:
    """What a walk found of a cell.

    Attributes:
        key: The result's key, where every stage is there.
        missing: The first stage that is not there: of the shared ones, and of the cell's own.
        visits: Of its own, in the order of the walk.
    """

    setting: Setting
    cell: Cell
    shared: Shared
    key: str | None
    missing: tuple[StageMissing, ...]
    visits: tuple[Visit, ...]


class Probe:
    """Walks many cells, what they share once."""

    def __init__(self, store: StageStore) -> None:
        self.store = store
        self.settle = Settler()
        self._look = LightStore(store)
        self._keys = Keys()
        self._shelf = Shelf()
        self._shared: dict[tuple[str, int, bool], tuple[Shared, int]] = {}

    def walk(self, request: RunRequest, recorded: Mapping[str, str] | None = None) -> Walk:
        """Walk a cell.

        Args:
            recorded: Key -> digest of stages that are known from results alone, and may be gone from the store.

        Raises:
            UsageError: As ``settle``.
            BenchError: The cell cannot be run: its data are not there, or there is nothing to forget in them.
        """
        setting = self.settle(request)
        shared = self._footing(setting, recorded)
        if shared.fault is not None:
            raise shared.fault
        if shared.footing is None:
            return Walk(setting, cell_of(setting), shared, None, shared.missing, ())
        setting.ruling.check_task(shared.footing.ground.split.manifest.digest)
        room = self._room(setting, recorded)
        cell, footing = cell_of(setting), shared.footing
        if recorded is not None and setting.entry.name != "original":
            # No result of another row says how the original was evaluated, and no key depends on it.
            before = footing.before.stage
            footing = replace(footing, scores={before.key: Scores(before, tuple), **footing.scores})
        try:
            made = make_row(room, footing)
        except StageMissing as missing:
            return Walk(setting, cell, shared, None, (*shared.missing, missing), tuple(room.visits))
        key = None if shared.missing else made.key(cell)
        return Walk(setting, cell, shared, key, shared.missing, tuple(room.visits))

    def _footing(self, setting: Setting, recorded: Mapping[str, str] | None) -> Shared:
        place = (recommender_of(setting.request), setting.seed, recorded is not None)
        told = len(recorded or ())
        found = self._shared.get(place)
        # What was missing may have been told by a result that was read since.
        if found is None or (found[0].missing and found[1] != told):
            # Whatever a method's own tuning was made on is checked with the method.
            request = setting.request.model_copy(update={"oracle_seeds": 0})
            own = replace(setting, request=request, ruling=Ruling())
            found = _shared(self._room(own, recorded), setting.request.oracle_seeds), told
            self._shared[place] = found
        return found[0]

    def _room(self, setting: Setting, recorded: Mapping[str, str] | None) -> _ProbingRoom:
        return _ProbingRoom(setting, self.store, self._shelf, self._look, self._keys, recorded or {})


def _shared(room: _ProbingRoom, oracles: int) -> Shared:
    setting = room.setting
    if to_be_fetched(setting.dataset, setting.data_dir):
        return Shared(None, (False,) * oracles, (StageMissing("download", "", {}),), None, ())
    try:
        footing = lay_footing(room)
    except StageMissing as missing:
        return Shared(None, (False,) * oracles, (missing,), None, tuple(room.visits))
    except BenchError as fault:
        return Shared(None, (False,) * oracles, (), fault, tuple(room.visits))
    found: list[Trained | StageMissing] = []
    for number in range(oracles):
        try:
            found.append(oracle(room, footing.ground, footing.sids, number))
        except StageMissing as missing:
            found.append(missing)
    lacking = tuple(one for one in found if isinstance(one, StageMissing))
    there = tuple(one for one in found if isinstance(one, Trained))
    # Some of the oracles would not do: a row is told by the number of the oracle that it is.
    whole = replace(footing, oracles=() if lacking else there)
    # A grid has hundreds of tables; of each, the codes are all that a walk looks at from here on.
    table = replace(whole.sids.table, codebooks=None, latents=None)
    whole = replace(whole, scores=_scores(room, whole), sids=replace(whole.sids, table=table))
    return Shared(whole, tuple(isinstance(one, Trained) for one in found), lacking, None, tuple(room.visits))


def _scores(room: _ProbingRoom, footing: Footing) -> dict[str, Scores]:
    """Scores of what every row of the footing is held against, those that are there."""
    found: dict[str, Scores] = {}
    for trained in (footing.before, *footing.oracles):
        with suppress(StageMissing):
            found[trained.stage.key] = score(room, footing.ground, footing.sids, trained)
    return found


class _ProbingRoom(Workroom):
    """A cell's access to the store that finds and never makes."""

    def __init__(
        self,
        setting: Setting,
        store: StageStore,
        shelf: Shelf,
        look: LightStore,
        keys: Keys,
        recorded: Mapping[str, str],
    ) -> None:
        super().__init__(setting, store, Progress(), shelf)
        self.visits: list[Visit] = []
        self._look = look
        self._keys = keys
        self._recorded = recorded

    def stage(
        self, name: str, content: KeyContent, compute: Compute, *, of: str = "", together: bool = False
    ) -> StoredStage:
        """The stage, if it is there. Raises StageMissing."""
        content = self._keys.shared(content)
        key = self._keys.key(name, content)
        found = self._look.stage(name, key) or self._from_results(name, key)
        self.visits.append(Visit(name, of, key, content, found))
        if found is None:
            raise StageMissing(name, key, content, of)
        return found

    def load(self, stage: StoredStage, loader: Callable[[Path], T]) -> T:
        """What a stage holds. One that cannot be read is as good as missing: the run finds that out and makes it anew.

        Raises StageMissing.
        """
        try:
            return loader(stage.path) if stage.name in _TABLES else super().load(stage, loader)
        except (OSError, ValueError, CorruptArtefact):
            raise StageMissing(stage.name, stage.key, {}) from None

    def of_seed(self, seed: int) -> Workroom:
        request = self.setting.request.model_copy(update={"seed": seed})
        setting = replace(self.setting, request=request)
        return _ProbingRoom(setting, self._store, self._shelf, self._look, self._keys, self._recorded)

    def looked_at(self, trained: Trained, load: Callable[[], Ranker] | None = None) -> Ranker:
        """The ranker without its weights."""
        try:
            return self.remember(f"stand-in/{trained.stage.key}", lambda: stand_in(trained.model))
        except (OSError, ValueError, KeyError, CorruptArtefact):
            raise StageMissing(trained.stage.name, trained.stage.key, {}) from None

    def _from_results(self, name: str, key: str) -> StoredStage | None:
        digest = self._recorded.get(key)
        if digest is None:
            return None
        account: dict[str, Any] = {"seconds": 0.0, "peak_memory_mib": 0.0, "stored": False}
        return StoredStage(name, self._store.folder(name, key), key, digest, 0.0, True, account)
