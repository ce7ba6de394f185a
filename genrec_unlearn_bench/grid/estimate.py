"""What stages will take, from what stages like them took. Nothing is guessed: where nothing like it was run, nobody
knows, and the plan says so.

Like is, in this order: the same stage of the same backbone, method and configuration on the same dataset; of whatever
configuration; of whatever method; on whatever dataset. Scale, kind of device and number of requests are always the
same. Among equals the median counts. Of each degree of likeness, stages of the store go before those that only
results tell of: these may have been made on another machine.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from genrec_unlearn_bench.grid.recorded_stages import RecordedStage, recorded_stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from genrec_unlearn_bench.grid.probe import Visit, Walk
    from genrec_unlearn_bench.pipeline.setting import Setting

__all__ = ["Costs", "Expected", "own_stages", "together"]

SAMPLES = 25
"""Stages that are remembered of each group; more would not change a median by much."""

BEYOND = "beyond"
"""All measurements beyond the core on one model together."""

SHADOWS = "shadows"
"""Training and unlearning of shadow models, of which nothing is learnt."""

_CORE = frozenset(
    {"dataset", "task", "features", "sids", "sasrec", "original", "retrain", "sids-full", "retrain-full"}
    | {"popularity", "unlearned", "stream", "evaluation"}
)

_BY_METHOD = frozenset({"unlearned", "stream"})
"""Stages whose cost depends on the method."""

_OF_DATASET = frozenset({"dataset", "task", "features"})
"""Stages that no backbone has a part in."""


@dataclass(frozen=True)
class Expected:
    """What something will take.

    Attributes:
        seconds: Wall-clock; None where nobody knows.
        size: Bytes in the cache.
        memory_mib: Peak memory of the process or the device.
        alike: Whether all of it was told by stages of the same backbone, method, configuration and dataset.
        machines: Where the results were made that told some of it; empty where the store told all.
    """

    seconds: float | None
    size: int | None = None
    memory_mib: float | None = None
    alike: bool = True
    machines: frozenset[str] = frozenset()


@dataclass
class _Group:
    seconds: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    machines: set[str] = field(default_factory=set)

    def expected(self, *, alike: bool) -> Expected:
        return Expected(
            median(self.seconds),
            int(median(self.sizes)) if self.sizes else None,
            max(self.memory) if self.memory else None,
            alike,
            frozenset(self.machines),
        )


_Place = tuple[str, ...]


class Costs:
    """What stages took, by what they are of.

    Args:
        records: Results folders that are asked where the store knows nothing as like; read once, and only then.
    """

    def __init__(self, records: Iterable[Path] = ()) -> None:
        self._groups: dict[_Place, _Group] = defaultdict(_Group)
        self._learnt: set[tuple[str, str]] = set()
        self._records = tuple(records)
        self._recorded: dict[_Place, _Group] | None = None

    def learn(self, walk: Walk) -> None:
        """Note the stages that a walk has found; each counts once a backbone (popularity is one for all of them)."""
        setting = walk.setting
        for visit in (*walk.shared.visits, *walk.visits):
            once = (visit.key, setting.backbone.name)
            if visit.name in _CORE and visit.stage is not None and once not in self._learnt:
                self._learnt.add(once)
                self._note(setting, visit.name, [visit])
        if setting.suite.measurements and walk.key is not None:
            # What a measurement takes is known for all of its parts on one model.
            self._note(setting, BEYOND, [visit for visit in walk.visits if _measures(visit, setting)])

    def _note(self, setting: Setting, name: str, visits: Iterable[Visit]) -> None:
        stages = [visit.stage for visit in visits if visit.stage is not None]
        stages = [stage for stage in stages if stage.account.get("stored", True)]
        places = list(_places(name, _of(setting)))
        if not stages or len(self._groups[places[0]].seconds) >= SAMPLES:
            return
        memory = [float(stage.account["peak_memory_mib"]) for stage in stages if "peak_memory_mib" in stage.account]
        size = sum(int(stage.account["size"]) if "size" in stage.account else _size(stage.path) for stage in stages)
        for place in places:
            group = self._groups[place]
            group.seconds.append(sum(stage.seconds for stage in stages))
            group.sizes.append(size)
            group.memory += memory

    def expected(self, setting: Setting, stage: str) -> Expected:
        """What a stage of a cell will take."""
        for level, place in enumerate(_places(stage, _of(setting))):
            group = self._groups.get(place) or self._told_by_records().get(place)
            if group is not None:
                return group.expected(alike=level == 0)
        return Expected(None)

    def _told_by_records(self) -> dict[_Place, _Group]:
        if self._recorded is None:
            groups: dict[_Place, _Group] = defaultdict(_Group)
            for stage in recorded_stages(self._records):
                _note_recorded(groups, stage)
            self._recorded = dict(groups)
        return self._recorded


def _note_recorded(groups: dict[_Place, _Group], stage: RecordedStage) -> None:
    for place in _places(stage.name, _of_record(stage)):
        group = groups[place]
        if len(group.seconds) < SAMPLES:
            group.seconds.append(stage.seconds)
            group.machines.add(stage.machine)
            if stage.memory_mib is not None:
                group.memory.append(stage.memory_mib)


def together(parts: Iterable[Expected]) -> Expected:
    """Several stages one after the other; unknown where one of them is."""
    found = list(parts)
    seconds = [part.seconds for part in found if part.seconds is not None]
    sizes = [part.size for part in found if part.size is not None]
    memory = [part.memory_mib for part in found if part.memory_mib is not None]
    return Expected(
        sum(seconds) if len(seconds) == len(found) else None,
        sum(sizes) if len(sizes) == len(found) else None,
        max(memory) if memory else None,
        all(part.alike for part in found),
        frozenset().union(*(part.machines for part in found)),
    )


def own_stages(setting: Setting) -> tuple[str, ...]:
    """The stages that a cell's own job makes; those of references are made by the references' cells."""
    name, requests = setting.entry.name, setting.request.requests
    rows = {
        "original": (),
        "retrain": (),
        "retrain-full": ("sids-full", "retrain-full"),
        "popularity": ("popularity",),
        "sasrec": ("sasrec",),
    }
    made = rows.get(name, ("unlearned",) * requests)
    evaluated = ("evaluation",) * (requests if setting.method is not None else 1)
    beyond = (BEYOND,) if setting.suite.measurements else ()
    shadows = (SHADOWS,) if setting.request.shadows else ()
    return (*made, *evaluated, *beyond, *shadows)


def _measures(visit: Visit, setting: Setting) -> bool:
    """Whether a stage measures the cell's own row, beyond the core."""
    row = "unlearned" if setting.method is not None else setting.entry.name
    return visit.name not in _CORE and visit.of.rpartition(" ")[2] in (row, "stream")


class _Of(NamedTuple):
    """What a stage is of, as far as its cost depends on it."""

    scale: str
    device: str
    dataset: tuple[str, str]
    """Its name, and the suite where that holds some of it out."""
    encoder: str
    backbone: str
    recommender: str
    """What was changed of its configuration."""
    row: str
    method: str
    """What was changed of the method's configuration."""
    requests: int


def _of(setting: Setting) -> _Of:
    request = setting.request
    return _Of(
        setting.scale.value,
        setting.device_kind,
        (setting.dataset.name, request.suite if setting.suite.holdout else "core"),
        setting.encoder.key,
        setting.backbone.name,
        _text([request.backbone_set, request.sid_set, request.measure_set]),
        setting.entry.name,
        _text(dict(request.method_set)),
        request.requests,
    )


def _of_record(stage: RecordedStage) -> _Of:
    """A record has whole configurations, not what was asked for: it is never of the same one."""
    dataset = (stage.dataset, stage.cell.suite if stage.held_out else "core")
    unlike = "as recorded"
    cell = stage.cell
    return _Of(
        cell.scale, stage.device, dataset, stage.encoder, cell.backbone, unlike, cell.method, unlike, cell.requests
    )


def _places(stage: str, of: _Of) -> Iterator[_Place]:
    """Groups that a stage belongs to, from the narrowest to the widest."""
    always = (stage, of.scale, of.device)
    if stage in _OF_DATASET:
        yield (*always, *of.dataset, of.encoder)
        yield (*always, *of.dataset)
        return
    if stage not in _BY_METHOD:
        kind = (*always, of.backbone)
        yield (*kind, *of.dataset, of.recommender)
        yield (*kind, *of.dataset)
        yield kind
        return
    stream = (*always, of.backbone, f"requests={of.requests}")
    yield (*stream, of.row, *of.dataset, of.recommender, of.method)
    yield (*stream, of.row, *of.dataset)
    yield (*stream, "any method", *of.dataset)
    yield (*stream, of.row)
    yield stream


def _text(content: object) -> str:
    return json.dumps(content, sort_keys=True, default=str)


def _size(folder: Path) -> int:
    """Bytes of a stage whose manifest does not say."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except OSError:
                continue
    return total
