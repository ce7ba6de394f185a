"""Logistic probes of every site and layer of one model, each beside its control task (Alain & Bengio 2016)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable, Subject
from genrec_unlearn_bench.evaluation.probing.estimates import SplitScores, accuracy, auroc, difference
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

_NO_CONCEPT_ITEMS = "single interactions are to be forgotten, so that no item is marked as the concept's"


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
class FittedProbe:
    """One probe: its scores on test, and its AUROC on validation, by which a layer may be chosen."""

    test_scores: SplitScores
    validation: float


@dataclass(frozen=True, eq=False)
class LayerProbes:
    """Probes of one layer, one for each split of ``SiteTasks``."""

    concept: tuple[FittedProbe, ...]
    control: tuple[FittedProbe, ...]


def measure_probing(subject: Subject, part: str, config: ProbingConfig, progress: Progress) -> Measured:
    """The curve of one model: a row for each site and layer, and one without numbers for a site that cannot be probed.

    ``samples`` holds, for each site that could be probed, ``site.headline``, the columns ``NUMBERS`` with every split
    at its own best layer, and ``site.layers``, those layers. Raises NotMeasurable where no site can be probed, or where
    a layer was asked for that no site has.
    """
    states, pool = subject.pass_arrays[STATES.name], sample_pool(subject)
    rows = {"prompt": pool.targets, "pooled": pool.targets, "history": pool.mentions, "embedding": pool.catalogue}
    layers = {site: FIRST_LAYER[site] + np.arange(states[site].shape[1]) for site in SITES}
    _check(config.layers, layers)
    single = subject.split.kind is ConceptKind.INTERACTION
    found: list[dict[str, object]] = []
    samples: dict[str, NDArray[np.generic]] = {}
    for site in progress.track("probes", SITES, total=len(SITES)):
        # The embedding is no layer of the network and is always probed.
        wanted = [
            place
            for place, layer in enumerate(layers[site])
            if config.layers is None or site == "embedding" or layer in config.layers
        ]
        try:
            if single and site in ("history", "embedding"):
                raise NotMeasurable(_NO_CONCEPT_ITEMS)
            if not wanted:
                raise NotMeasurable(f"this site has the layers {_listed(layers[site])}, and none of them was asked for")
            read = rows[site].subset(np.isfinite(states[site][rows[site].places, 0, 0]))
            if rows[site].labels.any() and not read.labels.any():
                raise NotMeasurable("the model is served without the concept's items in its histories")
            tasks = draw_tasks(read, config, subject.seed, single=single)
        except NotMeasurable as fault:
            found.append({"site": site, "layer": -1, "n": 0, "note": str(fault)})
            continue
        probed = [layer_probes(states[site][:, place], tasks, config) for place in wanted]
        for place, layer in zip(wanted, probed, strict=True):
            found.append({"site": site, "layer": int(layers[site][place]), **summary(layer, tasks, config)})
        chosen = best_layers(probed)
        own = LayerProbes(
            tuple(probed[layer].concept[index] for index, layer in enumerate(chosen)),
            tuple(probed[layer].control[index] for index, layer in enumerate(chosen) if tasks.control),
        )
        numbers = summary(own, tasks, config)
        samples[f"{site}.headline"] = np.array([numbers.get(name, np.nan) for name in NUMBERS], dtype=np.float64)
        samples[f"{site}.layers"] = layers[site][np.array(wanted)[chosen]]
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
    kinds = (tasks.concept, tasks.control)
    return LayerProbes(*(tuple(probe(states, *task, config.inverse_l2) for task in kind) for kind in kinds))


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
    scores = [[each.validation for each in layer.concept] for layer in probed]
    return np.asarray(np.argmax(np.array(scores), axis=0), dtype=np.int64)


def summary(probed: LayerProbes, tasks: SiteTasks, config: ProbingConfig) -> dict[str, object]:
    """The curve's columns behind site and layer."""
    test = 1 - config.train - config.validation
    correlation = test / (test + config.train)
    answers = [each.test_scores for each in probed.concept]
    right = accuracy(answers, correlation)
    tested = np.concatenate([rows.places[parts.test] for rows, parts in tasks.concept])
    numbers: dict[str, object] = {
        **auroc(answers, correlation).columns("auroc"),
        **right.columns("accuracy"),
        "validation_auroc": float(np.mean([each.validation for each in probed.concept])),
        "n": len(np.unique(tested)),
        "note": tasks.reason,
    }
    if probed.control:
        control = accuracy([each.test_scores for each in probed.control], correlation)
        numbers |= {"control_accuracy": control.value, **difference(right, control).columns("selectivity")}
    return numbers


def _check(wanted: Sequence[int] | None, layers: Mapping[str, IntArray]) -> None:
    known = {int(layer) for own in layers.values() for layer in own}
    absent = sorted(set(wanted or ()) - known)
    if absent:
        there = "; ".join(f"{site} {_listed(own)}" for site, own in layers.items())
        raise NotMeasurable(f"there is no layer {', '.join(map(str, absent))}; there are, by site: {there}")


def _listed(layers: IntArray) -> str:
    return f"{layers[0]}" if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"
