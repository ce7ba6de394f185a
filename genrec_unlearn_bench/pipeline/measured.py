"""The stages beyond the core: every measurement of the suite on the run's model and on those it is held against.

What is measured on one model is a stage (a part of a measurement each), so references are measured once for all methods
of a seed, a new measurement repeats none of the others, and an interrupted attack goes on with its next part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    NotMeasurable,
    References,
    SharedPass,
    Subject,
)
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.pipeline.stage_log import StageLog
from genrec_unlearn_bench.store.equal_code import code_digest
from genrec_unlearn_bench.store.sources import code_digests

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.backbones.recommender import Ranker
    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.pipeline.ground import Ground
    from genrec_unlearn_bench.pipeline.trained import Tokens, Trained
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.keys import KeyContent
    from genrec_unlearn_bench.store.store import StoredStage

__all__ = ["MODEL_COLUMN", "Beyond", "Taken", "read_measured", "take_beyond", "write_measured"]

T = TypeVar("T")

CURVE = "curve.parquet"
SAMPLES = "samples.safetensors"
OUTCOME = "outcome.json"

MODEL_COLUMN = "model"
"""First column of a published table: run, original, retrain, retrain 1 … or untrained."""

Parts = Mapping[str, Measured]
Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, eq=False)
class Beyond:
    """What the suite measured beyond the core.

    Attributes:
        values: Of the run.
        oracles: Of each oracle; measurements that look at the first alone have none for the others.
        tables: By measurement, what may be published with the result; ``MODEL_COLUMN`` says which model a row is of.
    """

    values: tuple[MetricValue, ...] = ()
    oracles: tuple[tuple[MetricValue, ...], ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Taken:
    """The stages of all measurements beyond the core, before anything is read of them.

    Attributes:
        stages: The stored parts, each with what the record calls it.
    """

    stages: tuple[tuple[str, StoredStage], ...] = ()
    found: tuple[tuple[Measurement, Parts, References], ...] = ()

    def compared(self, oracles: int) -> Beyond:
        """What they say.

        Args:
            oracles: How many there are.
        """
        values: list[MetricValue] = []
        retrained: list[list[MetricValue]] = [[] for _ in range(oracles)]
        tables: dict[str, pd.DataFrame] = {}
        for measurement, own, references in self.found:
            values += measurement.compare(own, references)
            for number, parts in enumerate(references.oracles):
                retrained[number] += measurement.compare(parts, replace(references, row="retrain"))
            table = _table(own, references)
            if table is not None:
                tables[measurement.name] = table
        return Beyond(tuple(values), tuple(tuple(found) for found in retrained), tables)


def take_beyond(
    room: Workroom, ground: Ground, sids: Tokens, row: Trained, *, before: Trained, oracles: Sequence[Trained]
) -> Taken:
    """Take every measurement of the setting's suite; nothing where the suite is the core."""
    desk = _Measuring(room, ground, sids)
    taken = []
    for name in room.setting.suite.measurements:
        measurement = find_measurement(name)
        held = oracles[: measurement.oracles or None]
        own = desk.parts(measurement, row)
        references = References(
            original=desk.parts(measurement, before),
            oracles=[desk.parts(measurement, oracle) for oracle in held],
            untrained=desk.parts(measurement, desk.floor(before)) if measurement.untrained else None,
            row=room.setting.entry.name,
        )
        taken.append((measurement, own, references))
    return Taken(tuple(desk.stages.values()), tuple(taken))


class _Loaded(Mapping[str, T]):
    """A mapping whose values are read when they are asked for."""

    def __init__(self, readers: Mapping[str, Callable[[], T]]) -> None:
        self._readers = dict(readers)

    def __getitem__(self, name: str) -> T:
        return self._readers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


class _Arrays(Mapping[str, "NDArray[np.generic]"]):
    """The arrays of a reading, read when one is asked for."""

    def __init__(self, read: Callable[[], Arrays]) -> None:
        self._read = read

    def __getitem__(self, name: str) -> NDArray[np.generic]:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


@dataclass(frozen=True, eq=False)
class _Model:
    """A ranker that is measured, and what identifies it in keys."""

    name: str
    digest: str
    load: Callable[[], Ranker]

    @cached_property
    def ranker(self) -> Ranker:
        return self.load()


class _Measuring:
    """Measures models part by part, each once."""

    def __init__(self, room: Workroom, ground: Ground, sids: Tokens) -> None:
        self.stages: dict[str, tuple[str, StoredStage]] = {}
        self._room, self._ground, self._sids = room, ground, sids
        self._models: dict[str, _Model] = {}
        self._done: dict[tuple[str, str], Parts] = {}

    def floor(self, before: Trained) -> _Model:
        """The original's shape with random weights."""
        from genrec_unlearn_bench.evaluation.untrained import untrained

        seed = self._room.setting.seed

        def load() -> Ranker:
            recommender = self._model(before).ranker
            if not isinstance(recommender, Recommender):
                raise BenchError(f"{type(recommender).__name__} has no weights to draw anew")
            drawn: Recommender = untrained(recommender, seed)
            return drawn

        code = code_digest(code_digests([untrained.__module__]))
        identity = f"untrained {before.stage.digest} {code}"
        return self._known(_Model("untrained", identity, lambda: self._room.looked_at(before, load)))

    def parts(self, measurement: Measurement, of: Trained | _Model) -> Parts:
        """All parts of a measurement on one model."""
        model = of if isinstance(of, _Model) else self._model(of)
        key = (measurement.name, model.digest)
        if key not in self._done:
            self._done[key] = _Loaded(dict(self._measured(measurement, model)))
        return self._done[key]

    def _measured(self, measurement: Measurement, model: _Model) -> Iterator[tuple[str, Callable[[], Measured]]]:
        if not isinstance(model.ranker, Recommender):
            reason = f"{model.name} is no generative recommender: it has no tokens and no layers"
            yield "", partial(Measured, reason=reason)
            return
        subject, stages = self._subject(model, model.ranker), []
        for reading in measurement.passes:
            stage, arrays, reason = self._reading(reading, model, subject)
            if reason:
                yield "", partial(Measured, reason=reason)
                return
            stages.append(stage)
            subject = replace(subject, pass_arrays={**subject.pass_arrays, reading.name: arrays})
        for part in measurement.parts(subject):
            yield part, self._part(measurement, part, model, subject, stages)

    def _part(
        self, measurement: Measurement, part: str, model: _Model, subject: Subject, readings: Sequence[StoredStage]
    ) -> Callable[[], Measured]:
        room = self._room
        config = room.setting.measuring[measurement.name]
        content: KeyContent = {
            **self._identity(model),
            "part": part,
            "config": config,
            "readings": [stage.digest for stage in readings],
            "code": code_digests([*measurement.modules, room.setting.backbone.__module__]),
        }

        def compute(folder: Path) -> None:
            log = StageLog(room.progress, room.work(measurement.name, content))
            try:
                found = measurement.measure(subject, part, config, log)
            except NotMeasurable as fault:
                found = Measured(reason=fault.what)
            write_measured(found, folder)

        label = f"{part} of {model.name}".strip() if part else model.name
        stage = room.stage(measurement.name, content, compute, of=label)
        self.stages[stage.key] = (f"{measurement.name}: {label}", stage)
        return lambda: room.load(stage, read_measured)

    def _reading(self, reading: SharedPass, model: _Model, subject: Subject) -> tuple[StoredStage, Arrays, str]:
        room = self._room
        content: KeyContent = {
            **self._identity(model),
            "scale": subject.scale,
            "code": code_digests([reading.target.partition(":")[0], room.setting.backbone.__module__]),
        }

        def compute(folder: Path) -> None:
            write_measured(reading.run(subject, StageLog(room.progress)), folder)

        stage = room.stage(reading.name, content, compute, of=model.name)
        self.stages[stage.key] = (f"{reading.name}: {model.name}", stage)
        return stage, _Arrays(lambda: room.load(stage, read_measured).samples), _reason(stage.path)

    def _identity(self, model: _Model) -> dict[str, str | int]:
        setting = self._room.setting
        return {
            "ranker": model.digest,
            "original_sids": self._sids.stage.digest,
            **self._ground.identity,
            "seed": setting.seed,
            "device": setting.device_kind,
        }

    def _model(self, trained: Trained) -> _Model:
        return self._known(_Model(trained.stage.name, trained.stage.digest, lambda: self._room.looked_at(trained)))

    def _known(self, model: _Model) -> _Model:
        """Each model is loaded once, however many measurements look at it."""
        return self._models.setdefault(model.digest, model)

    def _subject(self, model: _Model, recommender: Recommender) -> Subject:
        ground, setting = self._ground, self._room.setting
        if ground.holdout is None:
            raise BenchError(f"the suite {setting.suite.name!r} measures without a holdout")
        return Subject(
            recommender=recommender,
            original_sids=self._sids.table,
            items=ground.dataset.items,
            split=ground.split,
            features=ground.features,
            holdout=ground.holdout,
            scale=setting.scale.value,
            device=setting.device,
            seed=setting.seed,
        )


def write_measured(measured: Measured, folder: Path) -> None:
    """A part's files: the reason or none, and the curve and the samples where there are some."""
    from safetensors.numpy import save_file

    write_json(folder / OUTCOME, {"reason": measured.reason})
    if measured.curve is not None:
        measured.curve.to_parquet(folder / CURVE, engine="pyarrow", compression="zstd", index=False)
    if measured.samples:
        arrays = {name: np.ascontiguousarray(array) for name, array in measured.samples.items()}
        save_file(arrays, folder / SAMPLES)


def read_measured(folder: Path) -> Measured:
    """The inverse of ``write_measured``."""
    import pandas as pd
    from safetensors.numpy import load_file

    reason = _reason(folder)
    curve, samples = folder / CURVE, folder / SAMPLES
    return Measured(
        curve=pd.read_parquet(curve, engine="pyarrow") if curve.is_file() else None,
        samples=load_file(samples) if samples.is_file() else {},
        reason=reason,
    )


def _reason(folder: Path) -> str:
    return str(json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["reason"])


def _table(own: Parts, references: References) -> pd.DataFrame | None:
    """The curves of all models, one below the other; a reference that is the run itself stands there once more."""
    import pandas as pd

    named: list[tuple[str, Parts]] = [("run", own), ("original", references.original)]
    named += [(f"retrain {number}" if number else "retrain", parts) for number, parts in enumerate(references.oracles)]
    if references.untrained is not None:
        named.append(("untrained", references.untrained))
    frames = []
    for model, parts in named:
        curves = [part.curve for part in parts.values() if part.curve is not None and len(part.curve)]
        if curves:
            frame = pd.concat(curves, ignore_index=True)
            frame.insert(0, MODEL_COLUMN, model)
            frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else None
