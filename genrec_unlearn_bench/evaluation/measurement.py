"""The contract of a measurement beyond the core: what it is given, what it gives, how it is held against references.

A measurement works in two steps. ``measure`` looks at one model alone and is stored as a stage (one for every part,
so that an interrupted attack goes on with the next part). ``compare`` is cheap: it turns what was measured on the run,
on the original and on the oracles into metric values. So a reference is measured once and shared by all methods of a
seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.holdout import Holdout
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.metric import Group, MetricSpec, MetricValue
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.backbones.recommender import Recommender
    from genrec_unlearn_bench.progress import Progress

__all__ = [
    "Measured",
    "Measurement",
    "NotMeasurable",
    "Reading",
    "References",
    "Subject",
    "number",
    "unmeasured",
]


class NotMeasurable(BenchError):
    """The data or the model do not allow this measurement; the reason stands in place of the number."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One model under measurement, and what it is measured on.

    Attributes:
        recommender: The model. Measurements that change it work on a ``clone``.
        original_sids: The original recommender's table.
        scale: smoke, small, paper or official; measurements take their presets by it.
        device: Where the model lies, as torch names it.
        seed: The run's seed; draws are derived from it by name, the same for every model of a seed.
        readings: By name, what the measurement's ``readings`` declared; computed once for all measurements.
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
    readings: Mapping[str, Mapping[str, NDArray[np.generic]]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measured:
    """What one part of a measurement found on one model.

    Attributes:
        curve: The numbers that may be published with the result: one row a layer, step, score … Written to
            ``measurements/<name>.csv`` of the result; columns are the measurement's own.
        samples: Numbers of single examples, which ``compare`` needs and which are not published.
        reason: Why it could not be measured; empty where it was.
    """

    curve: pd.DataFrame | None = None
    samples: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, eq=False)
class References:
    """The same measurement on the models that a run is held against; parts by name, as for the run itself.

    Attributes:
        original: The model before unlearning.
        oracles: Retrained models, the run's own first; empty where none were trained.
        untrained: A model of the same shape with random weights, where the measurement asked for it.
        row: Name of the row that is measured: a reference row may be its own reference.
    """

    original: Mapping[str, Measured]
    oracles: Sequence[Mapping[str, Measured]]
    untrained: Mapping[str, Measured] | None = None
    row: str = ""


@dataclass(frozen=True)
class Reading:
    """A pass over a model whose outcome several measurements share (hidden states, likelihoods).

    Attributes:
        name: Unique; names the stage.
        read: Arrays by name. Raises NotMeasurable: then no measurement that needs it can be taken.
        modules: Modules whose code it runs; part of the stage's key.
    """

    name: str
    read: Callable[[Subject, Progress], Mapping[str, NDArray[np.generic]]]
    modules: tuple[str, ...]


class Measurement(ABC):
    """One measurement of the suite ``full``. Stateless; made without arguments.

    Attributes:
        name: As ``--measure`` says it, and the first part of its metrics' names.
        specs: Its metrics, all declared in a module ``specs`` that imports no torch (the catalogue reads it).
        modules: Modules whose code ``measure`` runs: a change in them, or in what they import, measures again.
        readings: Shared passes it needs.
        oracles: How many of the oracles it measures: 1, or 0 for all of them.
        untrained: Whether a randomly initialised model is measured as well, as a floor.
    """

    name: ClassVar[str]
    specs: ClassVar[tuple[MetricSpec, ...]]
    modules: ClassVar[tuple[str, ...]]
    readings: ClassVar[tuple[Reading, ...]] = ()
    oracles: ClassVar[int] = 1
    untrained: ClassVar[bool] = False

    @abstractmethod
    def config(self, scale: str) -> StrictModel:
        """Its configuration at a scale; part of every stage's key and of the record."""

    def parts(self, subject: Subject) -> tuple[str, ...]:
        """Names of the parts that are stored separately for this model; one without a name by default."""
        return ("",)

    @abstractmethod
    def measure(self, subject: Subject, part: str, config: Any, progress: Progress) -> Measured:
        """Measure one model.

        Args:
            config: What ``config`` gave, with the user's changes (``--set-measure``).
            progress: ``progress.work`` is a folder to go on from after a kill, where a part takes minutes.

        Raises NotMeasurable with the reason where this cannot be done.
        """

    @abstractmethod
    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        """Metric values of a run from what was measured on it and on its references.

        A value that cannot be had is None with the reason in its note (``unmeasured``), never left out and never 0.
        """


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
    """A measured value; what is not finite becomes None with a note."""
    if not np.isfinite(value):
        return MetricValue(metric=metric, group=group, value=None, n=n, note=note or f"the value is {value}")
    return MetricValue(metric=metric, group=group, value=float(value), n=n, sd=sd, interval=interval, note=note)


def unmeasured(specs: Iterable[MetricSpec], reason: str) -> tuple[MetricValue, ...]:
    """None for every group of the metrics, with the reason."""
    return tuple(
        MetricValue(metric=spec.name, group=group, value=None, note=reason) for spec in specs for group in spec.better
    )
