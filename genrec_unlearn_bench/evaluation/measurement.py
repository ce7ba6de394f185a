"""The contract of a measurement of the full suite: its inputs, its outcome, and its comparison with references.

``measure`` takes one model, part by part; all parts are stored as one stage. ``compare`` is cheap and turns what was
measured on the run and its references into metric values, so that a reference is measured once for all methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.registry import imported

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.backbones.recommender import Recommender
    from genrec_unlearn_bench.data.forget import ForgetSplit
    from genrec_unlearn_bench.data.holdout import Holdout
    from genrec_unlearn_bench.data.items import ItemTable
    from genrec_unlearn_bench.features.item_features import ItemFeatures
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.sids.table import SidTable

FloatArray = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.generic]]


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
    items: ItemTable
    split: ForgetSplit
    features: ItemFeatures
    holdout: Holdout
    scale: str
    device: str
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


@dataclass(frozen=True, eq=False)
class References:
    """The same measurement, by part, on the models that a run is compared with."""

    original: Mapping[str, Measured]
    oracles: Sequence[Mapping[str, Measured]]
    """Retrained models, the run's own first; empty where none were trained."""
    untrained: Mapping[str, Measured] | None = None
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
        """Measure one part of one model; raises NotMeasurable with the reason where that cannot be done.

        ``progress.work`` is a folder to go on from after a kill, where a part takes minutes.
        """
        measured: Measured = imported(self.target)(subject, part, config, progress)
        return measured

    @abstractmethod
    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
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

    def columns(self, name: str) -> dict[str, float]:
        """``name``, ``name_low`` and ``name_high`` of a curve."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def independent_oracles(own: Mapping[str, Measured], references: References) -> list[Mapping[str, Measured]]:
    """The oracles' parts without those of the run itself, which are the same object: no model is its own reference."""
    return [parts for parts in references.oracles if parts is not own]


def number(
    metric: str,
    group: Group,
    value: float,
    *,
    n: int | None = None,
    sd: float | None = None,
    interval: tuple[float, float] | None = None,
    note: str | None = None,
) -> MetricValue:
    """A measured value; one that is not finite becomes None with a note."""
    if not np.isfinite(value):
        return MetricValue(metric=metric, group=group, value=None, n=n, note=note or f"the value is {value}")
    return MetricValue(metric=metric, group=group, value=float(value), n=n, sd=sd, interval=interval, note=note)


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
