"""What of a grid is done, missing, stale or impossible, and what the rest will take. Computes and writes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.grid.estimate import Costs, Expected, own_stages, together
from genrec_unlearn_bench.grid.shared_stages import Link, links
from genrec_unlearn_bench.grid.standing import ONLY_THE_RESULT, Judge, Judged, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from genrec_unlearn_bench.grid.cell import GridCell
    from genrec_unlearn_bench.grid.job import Until
    from genrec_unlearn_bench.grid.probe import Shared, Walk
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.setting import Setting
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["Plan", "PlannedCell", "SharedStage", "Standing", "make_plan"]


@dataclass(frozen=True)
class PlannedCell:
    """One cell and how it stands.

    Attributes:
        reason: Why it stands so, in a sentence; empty for cells that are done.
        hint: What can be done about it, where it is impossible.
        result: The result's folder: the one that is there, or for a stale cell the newest that is.
        seconds: Wall-clock that its own stages will take, without shared ones; 0 where it is done, None where nothing
            like it has been run.
        size: Bytes that its own stages will take in the cache; None where that is not known.
        memory_mib: Peak memory of cells like it; None where that is not known.
        needs: Names of the shared stages that have to be made for it.
        alike: Whether what it will take was told by cells of the same configuration on the same dataset.
        machines: Where the results were made that told some of it, as the store knew nothing as like.
    """

    cell: GridCell
    standing: Standing
    reason: str = ""
    result: Path | None = None
    seconds: float | None = None
    hint: str = ""
    size: int | None = None
    memory_mib: float | None = None
    needs: tuple[str, ...] = ()
    alike: bool = True
    machines: frozenset[str] = frozenset()

    @property
    def waits(self) -> bool:
        """Whether it is to be run."""
        return self.standing in ("missing", "stale")


@dataclass(frozen=True)
class SharedStage:
    """A stage that several cells stand on and that is not there yet.

    Attributes:
        name: Unique within the plan, for people: ``original: industrial, tiger, small, seed 0``.
        until: How far a job has to go to make it.
        number: Which oracle, where it is one.
        request: A cell that shares it.
        cells: Names of all cells that wait for it.
        needs: Names of the shared stages that have to be made before it.
        seconds, size, memory_mib, alike, machines: As for cells.
    """

    name: str
    until: Until
    number: int
    request: RunRequest
    cells: tuple[str, ...]
    needs: tuple[str, ...] = ()
    seconds: float | None = None
    size: int | None = None
    memory_mib: float | None = None
    alike: bool = True
    machines: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Plan:
    """A grid as it stands.

    Attributes:
        cells: In the grid's order.
        shared: Stages to be made that cells share, each behind those it needs.
    """

    cells: tuple[PlannedCell, ...]
    shared: tuple[SharedStage, ...] = field(default=())

    @property
    def counts(self) -> dict[Standing, int]:
        """How many cells stand how."""
        found = Counter(planned.standing for planned in self.cells)
        order: tuple[Standing, ...] = ("done", "missing", "stale", "impossible")
        return {standing: found[standing] for standing in order}


def make_plan(cells: Sequence[GridCell], store: StageStore, progress: Progress, records: Iterable[Path] = ()) -> Plan:
    """Look at every cell. Reads the store and the results folders, and changes nothing in them.

    Args:
        records: Results folders that may tell what stages take, where the store knows nothing as like.

    Raises StorageError where they cannot be read.
    """
    judge, costs, sketch = Judge(store), Costs(records), _Sketch()
    drafts: list[tuple[PlannedCell, _Need | None]] = []
    for cell in progress.track("planning", cells):
        judged = judge.judge(cell)
        if judged.walk is not None:
            costs.learn(judged.walk)
        planned = PlannedCell(cell, judged.standing, judged.reason, judged.result, None, judged.hint)
        waits = judged.walk is not None and judged.standing != "done"
        drafts.append((planned, sketch.add(cell, judged) if waits else None))
    return Plan(
        tuple(_costed(planned, need, costs, sketch) for planned, need in drafts),
        tuple(sketch.stages(costs)),
    )


@dataclass(frozen=True)
class _Need:
    """What is left of a walk for the costs: the walk itself would not fit in memory twenty thousand times."""

    setting: Setting
    own: tuple[str, ...]
    links: tuple[str, ...]


@dataclass
class _Waiting:
    link: Link
    setting: Setting
    cells: list[str]


class _Sketch:
    """The shared stages that cells wait for, in the order in which they came up."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._links: dict[int, tuple[Shared, tuple[Link, ...]]] = {}
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._there: set[str] = set()

    def add(self, cell: GridCell, judged: Judged) -> _Need:
        """Note a cell that waits."""
        walk = judged.walk
        if walk is None:
            raise ValueError(f"{cell.name}: an impossible cell waits for nothing")
        known = self._links.get(id(walk.shared))
        if known is None:
            # Kept beside what it comes to, so that its place in memory is not given to another.
            known = self._links[id(walk.shared)] = (walk.shared, links(walk.setting, walk.shared))
            self._there.update(link.identity for link in known[1] if link.there)
        for link in known[1]:
            if link.there:
                continue
            if link.identity not in self._waiting:
                self._waiting[link.identity] = _Waiting(link, walk.setting, [])
                self._names[link.identity] = self._unique(link)
            self._waiting[link.identity].cells.append(cell.name)
        own = () if judged.reason == ONLY_THE_RESULT else _lacking(walk)
        return _Need(walk.setting, own, tuple(link.identity for link in known[1] if not link.there))

    def names(self, identities: Iterable[str]) -> tuple[str, ...]:
        """Of those that have to be made, the names in the plan.

        A walk that ends early cannot find what lies behind its end; another cell's walk may have.
        """
        return tuple(
            self._names[identity] for identity in identities if identity in self._names and identity not in self._there
        )

    def stages(self, costs: Costs) -> list[SharedStage]:
        """All of them, each behind those it needs."""
        order = {"ground": 0, "tokens": 1, "original": 2, "retrain": 3}
        waiting = (one for identity, one in self._waiting.items() if identity not in self._there)
        found = sorted(waiting, key=lambda one: order[one.link.until])
        return [self._stage(one, costs) for one in found]

    def _stage(self, waiting: _Waiting, costs: Costs) -> SharedStage:
        link = waiting.link
        expected = together(costs.expected(waiting.setting, stage) for stage in link.stages)
        return SharedStage(
            name=self._names[link.identity],
            until=link.until,
            number=link.number,
            request=waiting.setting.request,
            cells=tuple(waiting.cells),
            needs=self.names(link.needs),
            **_fields(expected),
        )

    def _unique(self, link: Link) -> str:
        name = link.name if link.name not in self._taken else f"{link.name} ({link.identity.split('/')[1][:6]})"
        self._taken.add(name)
        return name


def _lacking(walk: Walk) -> tuple[str, ...]:
    """Kinds of the cell's own stages that are not there."""
    wanted = Counter(own_stages(walk.setting))
    row = "unlearned" if walk.setting.method is not None else walk.setting.entry.name
    for visit in walk.visits:
        mine = visit.name != "evaluation" or visit.of in (row, "stream")
        if visit.stage is not None and mine and wanted[visit.name]:
            wanted[visit.name] -= 1
    return tuple(wanted.elements())


def _costed(planned: PlannedCell, need: _Need | None, costs: Costs, sketch: _Sketch) -> PlannedCell:
    if need is None:
        return replace(planned, seconds=0.0, size=0) if planned.standing == "done" else planned
    expected = together(costs.expected(need.setting, stage) for stage in need.own)
    return replace(planned, needs=sketch.names(need.links), **_fields(expected))


def _fields(expected: Expected) -> dict[str, Any]:
    return {
        "seconds": expected.seconds,
        "size": expected.size,
        "memory_mib": expected.memory_mib,
        "alike": expected.alike,
        "machines": expected.machines,
    }
