"""Logistic probes of every site and layer of one model, each beside its control task (Alain & Bengio 2016).

AUROC and accuracy are averaged over splits and have 95 % intervals clustered by item. Within a split, the variance is
the sum of squared influences of items, as examples of one item are alike (Obuchowski 1997, "Nonparametric analysis of
clustered ROC curve data", Biometrics 53: DeLong's placement values by cluster).

Between splits, which train and test on overlapping data: with s2 the variance of one, that of the mean of J is
s2 (r + (1 - r) / J), where r = tested / (tested + trained) (Nadeau & Bengio, "Inference for the generalization error",
Machine Learning 52, 2003). They estimate s2 from the spread of the J values; here it is the clustered variance.

The variance is turned into a number of independent examples of each class that would have it, and that into a score
interval, which stays inside [0, 1]: Newcombe 2006 ("Confidence intervals for an effect size measure based on the
Mann-Whitney statistic, part 2", Statistics in Medicine 25, method 5) for AUROC, Wilson's for accuracy, with Student's
quantile at Kish's effective number of items less one as degrees of freedom.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import rankdata, t
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.evaluation.measurement import FloatArray, IntervalEstimate, Measured, NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.probing.measurement import (
    COLUMNS,
    FIRST_LAYER,
    NUMBERS,
    SITES,
    STATES,
    ProbingConfig,
)
from genrec_unlearn_bench.evaluation.probing.splits import ProbeSplit, Rows, split_rows
from genrec_unlearn_bench.evaluation.probing.states import pseudo_concept, sample_pool
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator

_EDGE = 1e-9

ProbeTask = tuple[Rows, ProbeSplit]
"""Labelled rows and one split of them."""


@dataclass(frozen=True, eq=False)
class SiteTasks:
    """Tasks that all layers of a site are probed in: the rows, split anew for each entry, and pseudo-concepts, or the
    ``reason`` why the negatives do not allow these."""

    concept: tuple[ProbeTask, ...]
    control: tuple[ProbeTask, ...]
    reason: str = ""


@dataclass(frozen=True, eq=False)
class SplitScores:
    """A probe's scores (above 0: positive) on the test examples of one split, as many positives as negatives, [n]."""

    scores: FloatArray
    labels: BoolArray
    items: IntArray


@dataclass(frozen=True, eq=False)
class FittedProbe:
    """One probe: its scores on test, and its AUROC on validation, by which a layer may be chosen."""

    test_scores: SplitScores
    validation: float


LayerProbes = tuple[Sequence[FittedProbe], Sequence[FittedProbe]]
"""Probes of one layer, one for each concept and each control task of ``SiteTasks``."""


def measure_probing(subject: Subject, part: str, config: ProbingConfig, progress: Progress) -> Measured:
    """The curve of one model: a row for each site and layer, and one without numbers for a site that cannot be probed.

    ``samples`` holds, for each site that could be probed, ``site.headline``, the columns ``NUMBERS`` with every split
    at its own best layer, and ``site.layers``, those layers. Raises NotMeasurable where no site can be probed.
    """
    states, pool = subject.pass_arrays[STATES.name], sample_pool(subject)
    rows = {"prompt": pool.targets, "pooled": pool.targets, "history": pool.mentions, "embedding": pool.catalogue}
    single = subject.split.kind is ConceptKind.INTERACTION
    found: list[dict[str, object]] = []
    samples: dict[str, NDArray[np.generic]] = {}
    for site in progress.track("probes", SITES, total=len(SITES)):
        own, first = states[site], FIRST_LAYER[site]
        try:
            if single and site in ("history", "embedding"):
                raise NotMeasurable(
                    "single interactions are to be forgotten, so that no item is marked as the concept's"
                )
            read = rows[site].subset(np.isfinite(own[rows[site].places, 0, 0]))
            if rows[site].labels.any() and not read.labels.any():
                raise NotMeasurable("the model is served without the concept's items in its histories")
            tasks = draw_tasks(read, config, subject.seed, single=single)
        except NotMeasurable as fault:
            found.append({"site": site, "layer": -1, "n": 0, "note": str(fault)})
            continue
        probed = [layer_probes(own[:, place], tasks, config) for place in range(own.shape[1])]
        for place, layer in enumerate(probed):
            found.append({"site": site, "layer": first + place, **summary(layer, tasks, config)})
        chosen = best_layers(probed)
        concept = [probed[place][0][index] for index, place in enumerate(chosen)]
        control = [probed[place][1][index] for index, place in enumerate(chosen) if tasks.control]
        numbers = summary((concept, control), tasks, config)
        samples[f"{site}.headline"] = np.array([numbers.get(name, np.nan) for name in NUMBERS], dtype=np.float64)
        samples[f"{site}.layers"] = first + chosen
    if not samples:
        raise NotMeasurable("; ".join(f"{row['site']}: {row['note']}" for row in found))
    return Measured(curve=pd.DataFrame(found).reindex(columns=list(COLUMNS)), samples=samples)


def draw_tasks(rows: Rows, config: ProbingConfig, seed: int, *, single: bool = False) -> SiteTasks:
    """Split the rows and draw the control tasks; the same for every site with these rows.

    ``single``: see ``pseudo_concept``. Raises NotMeasurable where a part of a split has too few rows of a class.
    """
    surplus = np.flatnonzero(rows.labels)
    surplus = numpy_generator(seed, "probing", "positives").permutation(surplus)[config.examples :]
    rows = rows.subset(~np.isin(np.arange(len(rows)), surplus))

    def task(which: Rows, kind: str, index: int) -> ProbeTask:
        generator = numpy_generator(seed, "probing", kind, index)
        if kind == "control":
            which = pseudo_concept(which, generator, single=single)
        parts = split_rows(which, generator, train=config.train, validation=config.validation, minimum=config.minimum)
        return which, parts

    concept = tuple(task(rows, "concept", index) for index in range(config.splits))
    try:
        return SiteTasks(concept, tuple(task(rows, "control", index) for index in range(config.splits)))
    except NotMeasurable as fault:
        return SiteTasks(concept, (), f"no control task: {fault}")


def layer_probes(states: NDArray[Any], tasks: SiteTasks, config: ProbingConfig) -> LayerProbes:
    concept, control = (
        [probe(states, *task, config.inverse_l2) for task in kind] for kind in (tasks.concept, tasks.control)
    )
    return concept, control


def probe(states: NDArray[Any], rows: Rows, parts: ProbeSplit, inverse_l2: Sequence[float]) -> FittedProbe:
    """Fit on train, take the strength with the smallest validation log-loss, score test.

    ``states`` [places, D] are standardised by train's mean and deviation. ``inverse_l2``: scikit-learn's C, ascending;
    each fit starts from the one before.
    """
    train, validation, test = (
        states[rows.places[part]].astype(np.float64) for part in (parts.train, parts.validation, parts.test)
    )
    scaler = StandardScaler().fit(train)
    train, validation, test = (scaler.transform(part) for part in (train, validation, test))
    truth = rows.labels[parts.validation]
    model = LogisticRegression(warm_start=True, max_iter=300)
    best = np.inf
    scores = seen = np.zeros(0)
    with warnings.catch_warnings():
        # Separable classes under the weakest regularisation: such a fit loses on validation anyway.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for strength in inverse_l2:
            model.set_params(C=strength)
            model.fit(train, rows.labels[parts.train])
            loss = log_loss(truth, model.predict_proba(validation)[:, 1], labels=[False, True])
            if loss < best:
                best, scores, seen = loss, model.decision_function(test), model.decision_function(validation)
    test_scores = SplitScores(scores, rows.labels[parts.test], rows.items[parts.test])
    return FittedProbe(test_scores, float(roc_auc_score(truth, seen)))


def best_layers(probed: Sequence[LayerProbes]) -> IntArray:
    """For each split, the layer with the best AUROC on the split's own validation part.

    Split by split: what is validation in one is trained and tested on in others, so that a mean over splits
    would choose a layer by what it is then tested on (with 12 layers of noise the AUROC of the chosen one was 0.55).
    """
    scores = [[each.validation for each in concept] for concept, _ in probed]
    return np.asarray(np.argmax(np.array(scores), axis=0), dtype=np.int64)


def summary(probed: LayerProbes, tasks: SiteTasks, config: ProbingConfig) -> dict[str, object]:
    """The curve's columns behind site and layer."""
    test = 1 - config.train - config.validation
    correlation = test / (test + config.train)
    concept, controls = probed
    answers = [each.test_scores for each in concept]
    right = accuracy(answers, correlation)
    tested = np.concatenate([rows.places[parts.test] for rows, parts in tasks.concept])
    numbers: dict[str, object] = {
        **auroc(answers, correlation).columns("auroc"),
        **right.columns("accuracy"),
        "validation_auroc": float(np.mean([each.validation for each in concept])),
        "n": len(np.unique(tested)),
        "note": tasks.reason,
    }
    if controls:
        control = accuracy([each.test_scores for each in controls], correlation)
        numbers |= {"control_accuracy": control.value, **difference(right, control).columns("selectivity")}
    return numbers


@dataclass(frozen=True, kw_only=True)
class SplitMean(IntervalEstimate):
    """An average over splits with its interval, and its standard error with degrees of freedom."""

    error: float
    freedom: float


@dataclass(frozen=True)
class _Shape:
    """Variance of a value a from n independent examples: a (1 - a) (1 + (n - 1) c(a)) / n^2.

    ``likeness`` is c; ``classes`` is 2 where n counts the examples of each class.
    """

    likeness: Callable[[float], float]
    classes: int

    def variance(self, chance: float, size: float) -> float:
        return chance * (1 - chance) * (1 + (size - 1) * self.likeness(chance)) / size**2

    def size(self, chance: float, variance: float) -> float:
        """The n that has this variance."""
        spread, like = chance * (1 - chance), self.likeness(chance)
        return (spread * like + math.sqrt((spread * like) ** 2 + 4 * variance * spread * (1 - like))) / (2 * variance)


def auroc(tests: Sequence[SplitScores], correlation: float) -> SplitMean:
    """Chance that a positive scores above a negative (ties count half), mean over splits; r is ``correlation``."""
    values, influences = [], []
    for test in tests:
        ranks = rankdata(test.scores)
        placed = np.empty(len(test.labels))
        for own in (test.labels, ~test.labels):
            # Share of the other class that lies below, ties by half.
            placed[own] = (ranks[own] - rankdata(test.scores[own])) / (~own).sum()
        placed[~test.labels] = 1 - placed[~test.labels]
        values.append(float(placed.mean()))
        influences.append((placed - placed.mean()) * 2 / len(placed))
    shape = _Shape(lambda chance: (1 - chance) / (2 - chance) + chance / (1 + chance), classes=2)
    return _estimate(tests, values, influences, correlation, shape)


def accuracy(tests: Sequence[SplitScores], correlation: float) -> SplitMean:
    """Share of right answers on balanced classes, mean over splits."""
    values, influences = [], []
    for test in tests:
        right = ((test.scores > 0) == test.labels).astype(np.float64)
        values.append(float(right.mean()))
        # By class: where a probe leans to one side, what it loses there it wins on the other.
        mean = np.where(test.labels, right[test.labels].mean(), right[~test.labels].mean())
        influences.append((right - mean) / len(right))
    return _estimate(tests, values, influences, correlation, _Shape(lambda chance: 1.0, classes=1))


def difference(own: SplitMean, other: SplitMean) -> IntervalEstimate:
    """Own less other, taken as independent."""
    half = float(t.ppf(0.975, min(own.freedom, other.freedom)) * np.hypot(own.error, other.error))
    gap = own.value - other.value
    return IntervalEstimate(gap, max(gap - half, -1.0), min(gap + half, 1.0))


def _estimate(
    tests: Sequence[SplitScores],
    values: Sequence[float],
    influences: Sequence[FloatArray],
    correlation: float,
    shape: _Shape,
) -> SplitMean:
    value = float(np.mean(values))
    labels, items = (np.concatenate(part) for part in zip(*((test.labels, test.items) for test in tests), strict=True))
    # The class with fewer items limits the degrees of freedom.
    freedom = max(min(_effective(items[side]) for side in (labels, ~labels)) - 1, 1.0)
    shrink = correlation + (1 - correlation) / len(tests)
    squared = float(np.mean([_clustered(*pair) for pair in zip(tests, influences, strict=True)])) * shrink
    if squared > 0 and 0 < value < 1:
        most = float(np.mean([len(test.labels) for test in tests])) / shape.classes
        size = float(np.clip(shape.size(value, squared), 1.0, most / shrink))
    else:
        # Nothing went wrong (or right), so that there is no variance to see: each item counts as one example.
        fewest = np.mean([min(_effective(test.items[side]) for side in (test.labels, ~test.labels)) for test in tests])
        size = float(fewest) / shrink
    low, high = _interval(value, size, float(t.ppf(0.975, freedom)), shape)
    return SplitMean(value=value, low=low, high=high, error=float(np.sqrt(squared)), freedom=freedom)


def _clustered(test: SplitScores, influence: FloatArray) -> float:
    _, cluster = np.unique(test.items, return_inverse=True)
    effective = min(_effective(test.items[side]) for side in (test.labels, ~test.labels))
    return float((np.bincount(cluster, influence) ** 2).sum()) * effective / max(effective - 1, 0.5)


def _effective(items: IntArray) -> float:
    """Kish's effective number of items of unequal frequency."""
    counts = np.unique(items, return_counts=True)[1].astype(np.float64)
    return float(counts.sum() ** 2 / (counts**2).sum())


def _interval(value: float, size: float, quantile: float, shape: _Shape) -> tuple[float, float]:
    """All chances that ``value`` is within ``quantile`` of their standard errors of."""

    def beyond(chance: float) -> float:
        return (chance - value) ** 2 - quantile**2 * shape.variance(chance, size)

    low = 0.0 if value <= _EDGE else float(brentq(beyond, 0.0, min(value, 1 - _EDGE)))
    high = 1.0 if value >= 1 - _EDGE else float(brentq(beyond, max(value, _EDGE), 1.0))
    return low, high
