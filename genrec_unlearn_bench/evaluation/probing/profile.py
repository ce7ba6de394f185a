"""Probes of every site and layer of one model, each beside its control task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.evaluation.measurement import Measured, NotMeasurable
from genrec_unlearn_bench.evaluation.probing.config import ProbingConfig
from genrec_unlearn_bench.evaluation.probing.estimates import Estimate, accuracy, auroc, difference
from genrec_unlearn_bench.evaluation.probing.examples import pseudo_concept, sample_pool
from genrec_unlearn_bench.evaluation.probing.parts import Parts, divide
from genrec_unlearn_bench.evaluation.probing.probes import Probed, probe
from genrec_unlearn_bench.evaluation.probing.rows import Rows
from genrec_unlearn_bench.evaluation.probing.specs import COLUMNS, FIRST_LAYER, SITES
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.measurement import Subject
    from genrec_unlearn_bench.progress import Progress

__all__ = ["Task", "Tasks", "draw_tasks", "layer_numbers", "measure_probing"]

_NO_CONCEPT_ITEMS = "single interactions are to be forgotten, so that no item is marked as the concept's"


@dataclass(frozen=True, eq=False)
class Task:
    """Labelled rows and one division of them."""

    rows: Rows
    parts: Parts


@dataclass(frozen=True, eq=False)
class Tasks:
    """What all layers of a site are probed with.

    Attributes:
        concept: The rows, divided anew for each entry.
        control: As many pseudo-concepts, each with a division; empty where the negatives do not allow one.
        reason: Why there is no control task.
    """

    concept: tuple[Task, ...]
    control: tuple[Task, ...]
    reason: str = ""


def measure_probing(
    subject: Subject, states: Mapping[str, NDArray[Any]], config: ProbingConfig, progress: Progress
) -> Measured:
    """The curve of one model: a row for each site and layer, and one without numbers for a site that cannot be probed.

    Args:
        states: Of ``sites.read_states``.

    Raises:
        NotMeasurable: No site can be probed, or a layer was asked for that no site has.
    """
    pool = sample_pool(subject)
    rows = {"prompt": pool.targets, "pooled": pool.targets, "history": pool.mentions, "embedding": pool.catalogue}
    layers = {site: FIRST_LAYER[site] + np.arange(states[site].shape[1]) for site in SITES}
    _check(config.layers, layers)
    single = subject.split.kind is ConceptKind.INTERACTION
    found: list[dict[str, object]] = []
    for site in progress.track("probes", SITES, total=len(SITES)):
        # The embedding's one layer is no layer of the network: it is there whatever layers are asked for.
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
        for place in wanted:
            numbers = layer_numbers(states[site][:, place], tasks, config)
            found.append({"site": site, "layer": int(layers[site][place]), **numbers})
    if all(row["n"] == 0 for row in found):
        raise NotMeasurable("; ".join(f"{row['site']}: {row['note']}" for row in found))
    return Measured(curve=pd.DataFrame(found).reindex(columns=list(COLUMNS)))


def draw_tasks(rows: Rows, config: ProbingConfig, seed: int, *, single: bool = False) -> Tasks:
    """Divide the rows and draw the control tasks; the same for every site with these rows.

    Args:
        single: See ``pseudo_concept``.

    Raises:
        NotMeasurable: A part of a division has too few rows of a class.
    """
    surplus = np.flatnonzero(rows.labels)
    surplus = numpy_generator(seed, "probing", "positives").permutation(surplus)[config.examples :]
    rows = rows.subset(~np.isin(np.arange(len(rows)), surplus))

    def divided(which: Rows, kind: str, index: int) -> Task:
        generator = numpy_generator(seed, "probing", kind, index)
        if kind == "control":
            which = pseudo_concept(which, generator, single=single)
        parts = divide(which, generator, train=config.train, validation=config.validation, minimum=config.minimum)
        return Task(which, parts)

    concept = tuple(divided(rows, "concept", index) for index in range(config.splits))
    try:
        return Tasks(concept, tuple(divided(rows, "control", index) for index in range(config.splits)))
    except NotMeasurable as fault:
        return Tasks(concept, (), f"no control task: {fault}")


def layer_numbers(states: NDArray[Any], tasks: Tasks, config: ProbingConfig) -> dict[str, object]:
    """The curve's columns for one layer's states [places, D]."""
    test = 1 - config.train - config.validation
    correlation = test / (test + config.train)
    probed = _probes(states, tasks.concept, config)
    tests = [each.answers for each in probed]
    ranked, right = auroc(tests, correlation), accuracy(tests, correlation)
    tested = np.concatenate([task.rows.places[task.parts.test] for task in tasks.concept])
    numbers: dict[str, object] = {
        **_bounded("auroc", ranked),
        **_bounded("accuracy", right),
        "validation_auroc": float(np.mean([each.validation for each in probed])),
        "n": len(np.unique(tested)),
        "note": tasks.reason,
    }
    if tasks.control:
        control = accuracy([each.answers for each in _probes(states, tasks.control, config)], correlation)
        low, high = difference(right, control)
        numbers |= {"control_accuracy": control.value, "selectivity": right.value - control.value}
        numbers |= {"selectivity_low": low, "selectivity_high": high}
    return numbers


def _probes(states: NDArray[Any], tasks: Iterable[Task], config: ProbingConfig) -> list[Probed]:
    return [probe(states, task.rows, task.parts, config.inverse_l2) for task in tasks]


def _bounded(name: str, estimate: Estimate) -> dict[str, object]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _check(wanted: Sequence[int] | None, layers: Mapping[str, IntArray]) -> None:
    known = {int(layer) for own in layers.values() for layer in own}
    absent = sorted(set(wanted or ()) - known)
    if absent:
        there = "; ".join(f"{site} {_listed(own)}" for site, own in layers.items())
        raise NotMeasurable(f"there is no layer {', '.join(map(str, absent))}; there are, by site: {there}")


def _listed(layers: IntArray) -> str:
    return f"{layers[0]}" if len(layers) == 1 else f"{layers[0]} to {layers[-1]}"
