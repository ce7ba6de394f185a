"""The contract of a measurement of the full suite, and how its outcomes are run, stored and compared.

``measure`` takes one model, part by part; all parts are stored as one stage. ``compare`` is cheap and turns what was
measured on the run and its references into metric values, so that a reference is measured once for all methods.

The folder of a stage holds ``parts.json`` (part -> subfolder and the reason why it could not be measured, or "") and a
subfolder for each part with ``outcome.json``, ``curve.parquet`` and ``samples.safetensors``, the latter two where there
are some.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.registry import imported
from genrec_unlearn_bench.tensors import read_tensors, write_tensors

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.backbones.recommender import Recommender
    from genrec_unlearn_bench.data.forget import ForgetSplit
    from genrec_unlearn_bench.data.holdout import Holdout
    from genrec_unlearn_bench.features.item_features import ItemFeatures
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.sids.table import SidTable

FloatArray = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.generic]]


CURVE, SAMPLES, OUTCOME, INDEX = "curve.parquet", "samples.safetensors", "outcome.json", "parts.json"
MODEL_COLUMN = "model"
"""First column of a published table: run, original, retrain, retrain 1 … or untrained."""


class NotMeasurable(BenchError):
    """The data or the model do not allow this measurement; the reason stands in place of the number."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One model under measurement, and the data it is measured on.

    Attributes:
        recommender: The model. Measurements that change it work on a ``clone``.
        original_sids: The original recommender's table.
        scale: smoke, small, paper or official; measurements take their presets by it.
        seed: Draws are derived from it by name, the same for every model of a seed.
        pass_arrays: By pass and name, the arrays of the passes that the measurement declares.
    """

    recommender: Recommender
    original_sids: SidTable
    split: ForgetSplit
    features: ItemFeatures
    holdout: Holdout
    scale: str
    seed: int
    pass_arrays: Mapping[str, Arrays] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measured:
    """Outcome of one part of a measurement on one model, or of a shared pass.

    Attributes:
        curve: Published as ``measurements/<name>.csv``: a row for each layer, step, score …
        samples: Numbers of single examples, which ``compare`` needs and which are not published.
        reason: Why it could not be measured; empty where it was.
    """

    curve: pd.DataFrame | None = None
    samples: Arrays = field(default_factory=dict)
    reason: str = ""


Parts = Mapping[str, Measured]
"""One measurement on one model, by part. Parts of one model are one object in a session."""


@dataclass(frozen=True, eq=False)
class References:
    """The same measurement on the models that a run is compared with."""

    original: Parts
    oracles: Sequence[Parts]
    """Retrained models, the run's own first; empty where none were trained."""
    untrained: Parts | None = None
    """A model of the same shape with random weights, where the measurement asked for it."""
    row: str = ""
    """Name of the row that is measured: a reference row may be its own reference."""


@dataclass(frozen=True)
class SharedPass:
    """A pass over a model whose arrays several measurements use (hidden states, likelihoods); ``name`` is its stage's.

    ``target`` is ``module:function``. The function takes a ``Subject`` and a ``Progress``, returns arrays by name, and
    raises NotMeasurable where the pass cannot be taken. ``version`` is raised by hand when the arrays can change.
    """

    name: str
    target: str
    version: int = 1

    def run(self, subject: Subject, progress: Progress) -> Measured:
        """The arrays as ``samples``, or the reason why the pass cannot be taken."""
        try:
            return Measured(samples=imported(self.target)(subject, progress))
        except NotMeasurable as fault:
            return Measured(reason=fault.what)


class Measurement(ABC):
    """One measurement of the full suite. Stateless; made without arguments; its module imports no torch.

    Attributes:
        name: As ``--measure`` takes it, and the first part of its metrics' names.
        specs: Its metrics.
        version: Raised by hand when the outcome of ``measure`` can change.
        passes: Shared passes it needs.
        target: ``module:function`` that measures, with the arguments of ``measure``; imported then.
        oracles: How many of the oracles it measures: 1, or 0 for all of them.
        untrained: Whether a randomly initialised model is measured as well, as a floor.
    """

    name: ClassVar[str]
    specs: ClassVar[tuple[MetricSpec, ...]]
    version: ClassVar[int] = 1
    passes: ClassVar[tuple[SharedPass, ...]] = ()
    target: ClassVar[str]
    oracles: ClassVar[int] = 1
    untrained: ClassVar[bool] = False

    @abstractmethod
    def config(self, scale: str) -> StrictModel:
        """Its configuration at a scale; part of every stage's key and of the record."""

    def parts(self, subject: Subject) -> tuple[str, ...]:
        """Names of the parts that this model is measured in: letters, digits, ``-`` and ``/``; "" for a single one.

        An interrupted measurement goes on with the next part.
        """
        return ("",)

    def measure(self, subject: Subject, part: str, config: Any, progress: Progress) -> Measured:
        """Measure one part of one model; raises NotMeasurable with the reason where that cannot be done."""
        measured: Measured = imported(self.target)(subject, part, config, progress)
        return measured

    @abstractmethod
    def compare(self, own: Parts, references: References) -> tuple[MetricValue, ...]:
        """Metric values of a run. One that cannot be had is None with the reason in its note, never left out or 0."""


@dataclass(frozen=True)
class IntervalEstimate:
    """A number with its 95 % interval, over n examples where that is of use."""

    value: float
    low: float
    high: float
    n: int | None = None

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    def metric(self, name: str, group: Group, *, n: int | None = None, note: str | None = None) -> MetricValue:
        return number(name, group, self.value, n=self.n if n is None else n, interval=self.interval, note=note)

    def columns(self, name: str) -> dict[str, float]:
        """``name``, ``name_low`` and ``name_high`` of a curve."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def independent_oracles(own: Parts, references: References) -> list[Parts]:
    """The oracles' parts without those of the run itself, which are the same object: no model is its own reference."""
    return [parts for parts in references.oracles if parts is not own]


def number(
    metric: str,
    group: Group,
    value: float,
    *,
    n: int | None = None,
    interval: tuple[float, float] | None = None,
    note: str | None = None,
) -> MetricValue:
    """A measured value; one that is not finite becomes None with a note."""
    if not np.isfinite(value):
        return MetricValue(metric=metric, group=group, value=None, n=n, note=note or f"the value is {value}")
    return MetricValue(metric=metric, group=group, value=float(value), n=n, interval=interval, note=note)


def unmeasured(specs: Iterable[MetricSpec], reason: str) -> tuple[MetricValue, ...]:
    """None for every group of the metrics, with the reason."""
    return tuple(
        MetricValue(metric=spec.name, group=group, value=None, note=reason) for spec in specs for group in spec.better
    )


def values_or_reason(
    specs: Sequence[MetricSpec], compute: Callable[[], Iterable[MetricValue]]
) -> tuple[MetricValue, ...]:
    """The outcome of ``compute``, or None for all of ``specs`` with the reason where it raises NotMeasurable."""
    try:
        return tuple(compute())
    except NotMeasurable as fault:
        return unmeasured(specs, fault.what)


def run_parts(
    measurement: Measurement,
    subject: Subject,
    config: Any,
    progress: Progress,
    folder: Path,
    *,
    passes: Parts,
    work: Path,
    reseed: Callable[[], None],
) -> None:
    """Measure one model part by part and write all parts to ``folder``, as ``read_parts`` reads them.

    Args:
        passes: Outcomes of the declared passes. The reason of one that could not be taken stands for all parts.
        work: Folder that survives a kill: finished parts are kept there and not measured again. The caller removes it.
        reseed: Called before each part, so that none depends on which others were measured before it.
    """
    found = {declared.name: passes[declared.name] for declared in measurement.passes}
    reason = next((outcome.reason for outcome in found.values() if outcome.reason), "")
    if reason:
        write_parts({"": Measured(reason=reason)}, folder)
        return
    arrays = {name: outcome.samples for name, outcome in found.items()}
    subject = replace(subject, pass_arrays={**subject.pass_arrays, **arrays})
    parts: dict[str, Measured] = {}
    for part in measurement.parts(subject):
        kept = work / _folder_name(part)
        outcome = _finished(kept)
        if outcome is None:
            reseed()
            try:
                outcome = measurement.measure(subject, part, config, progress)
            except NotMeasurable as fault:
                outcome = Measured(reason=fault.what)
            write_measured(outcome, kept)
        parts[part] = outcome
    write_parts(parts, folder)


def _finished(folder: Path) -> Measured | None:
    """The outcome of a part that an interrupted process finished; None where there is no whole one."""
    from pyarrow.lib import ArrowException

    try:
        return read_measured(folder)
    except (OSError, ValueError, KeyError, TypeError, ArrowException):
        return None


def write_parts(parts: Parts, folder: Path) -> None:
    """Write all parts of a measurement on one model to ``folder``, which is created if need be."""
    for part, outcome in parts.items():
        write_measured(outcome, folder / _folder_name(part))
    index = {part: {"folder": _folder_name(part), "reason": outcome.reason} for part, outcome in parts.items()}
    write_json(folder / INDEX, index)


def read_parts(folder: Path) -> Parts:
    index: dict[str, dict[str, str]] = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    return {part: read_measured(folder / entry["folder"]) for part, entry in index.items()}


def write_measured(measured: Measured, folder: Path) -> None:
    """Write one outcome (a part's or a pass's) to ``folder``, which is created if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    if measured.curve is not None:
        measured.curve.to_parquet(folder / CURVE, engine="pyarrow", compression="zstd", index=False)
    if measured.samples:
        write_tensors(measured.samples, folder / SAMPLES)
    # Last: a folder with it is whole.
    write_json(folder / OUTCOME, {"reason": measured.reason})


def read_measured(folder: Path) -> Measured:
    import pandas as pd

    curve, samples = folder / CURVE, folder / SAMPLES
    return Measured(
        curve=pd.read_parquet(curve, engine="pyarrow") if curve.is_file() else None,
        samples=read_tensors(samples) if samples.is_file() else {},
        reason=json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["reason"],
    )


@dataclass(frozen=True, eq=False)
class ExtraMetrics:
    """Metrics beyond the core of the run and of each oracle; ``tables`` has the curves of all models by measurement."""

    values: tuple[MetricValue, ...] = ()
    oracles: tuple[tuple[MetricValue, ...], ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def compare_measurements(measured: Sequence[tuple[Measurement, Parts, References]], oracles: int) -> ExtraMetrics:
    """Turn what was measured on all models, the run's parts and the references of each measurement, into metric values
    and published tables. ``oracles``: how many the run has.
    """
    values: list[MetricValue] = []
    retrained: list[list[MetricValue]] = [[] for _ in range(oracles)]
    tables: dict[str, pd.DataFrame] = {}
    for measurement, own, references in measured:
        values += measurement.compare(own, references)
        for place, parts in enumerate(references.oracles):
            retrained[place] += measurement.compare(parts, replace(references, row="retrain"))
        table = _table(own, references)
        if table is not None:
            tables[measurement.name] = table
    return ExtraMetrics(tuple(values), tuple(tuple(found) for found in retrained), tables)


def _table(own: Parts, references: References) -> pd.DataFrame | None:
    """The curves of all models, concatenated; a reference that is the run itself is repeated."""
    import pandas as pd

    named = {"run": own, "original": references.original}
    named |= {f"retrain {place}" if place else "retrain": parts for place, parts in enumerate(references.oracles)}
    if references.untrained is not None:
        named["untrained"] = references.untrained
    frames = []
    for model, parts in named.items():
        curves = [part.curve for part in parts.values() if part.curve is not None and len(part.curve)]
        if curves:
            frame = pd.concat(curves, ignore_index=True)
            frame.insert(0, MODEL_COLUMN, model)
            frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else None


def _folder_name(part: str) -> str:
    """``mixed/served`` -> ``mixed.served``; the part without a name is ``all``."""
    return part.replace("/", ".") or "all"
