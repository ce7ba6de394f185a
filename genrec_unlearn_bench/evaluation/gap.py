"""Gap to the retrained model, in the metric's unit and in deviations over retraining seeds; cost of unlearning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from genrec_unlearn_bench.evaluation import (
    collateral,
    concept,
    forget_quality,
    history_influence,
    membership,
    quantisation,
    ranking,
    similarity,
)
from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec, MetricValue
from genrec_unlearn_bench.evaluation.probing import measurement as probing
from genrec_unlearn_bench.evaluation.relearning import measurement as relearning

_LEFT_IN_WEIGHTS = (
    "probing.auroc.*",
    "relearning.hr@10.*",
    "relearning.area.*",
    "relearning.original-sids.hr@10.*",
    "relearning.original-sids.area.*",
    "membership.auc.*",
    "forget-quality.truth-ratio",
    "quantisation.hr@10.*",
)
"""Metrics of the full suite that a retrained model has its own value of. Recoveries, PrivLeak, Kolmogorov-Smirnov, ToW
and average gap are distances to it already."""

_USER_MEASURED = (ranking, similarity, concept, history_influence, collateral)
_MODEL_MEASURED = (probing, relearning, membership, forget_quality, quantisation)

COMPARED = (
    *(spec for module in _USER_MEASURED for spec in module.SPECS if spec.level is Level.USER),
    *(
        spec
        for module in _MODEL_MEASURED
        for spec in module.SPECS
        if any(fnmatchcase(spec.name, pattern) for pattern in _LEFT_IN_WEIGHTS)
    ),
)
"""Metrics compared with the oracle: everything measured on users, and what the full suite finds in a model. Ω and cost
are not, as the oracle keeps the original's table and pays for the retraining itself."""


def _specs(base: MetricSpec) -> Iterable[MetricSpec]:
    width = base.range[1] - base.range[0]
    for name, end, bound, unit, description in (
        ("gap", "", width, base.unit, f"{base.name} minus its mean over the oracle's runs; 0 is the oracle."),
        (
            "gapz",
            " / sd",
            math.inf,
            "spreads",
            f"gap.{base.name} divided by the standard deviation of {base.name} over the oracle's seeds.",
        ),
    ):
        yield MetricSpec(
            name=f"{name}.{base.name}",
            title=f"Δ {base.title}{end}",
            better=dict.fromkeys(base.better, Better.ORACLE),
            range=(-bound, bound),
            unit=unit,
            description=description,
            source="protocol sec. 3 and 4: the target for forgetting is the retrained model's score, not zero",
        )


_COST_SPECS = tuple(
    MetricSpec(
        name=f"cost.{name}",
        title=title,
        better={Group.ALL: Better.LOWER},
        range=(0.0, math.inf),
        unit=unit,
        description=description,
        source="protocol sec. 4",
    )
    for name, title, unit, description in (
        ("unlearn-seconds", "Time", "seconds", "Wall-clock of unlearning alone."),
        (
            "share-of-retraining",
            "Time / retraining",
            "fraction",
            "Wall-clock of unlearning divided by that of training the oracle on the same machine kind.",
        ),
        ("peak-memory", "Memory", "MiB", "Peak memory of the process (CPU) or the device (GPU) in unlearning."),
        ("steps", "Steps", "count", "Optimiser steps of unlearning."),
        ("tuning-trials", "Trials", "count", "Configurations tried before this one was chosen."),
    )
)

SPECS = (*_COST_SPECS, *(spec for base in COMPARED for spec in _specs(base)))

_NAMES = frozenset(spec.name for spec in COMPARED)


def gap_to_oracle(values: Sequence[MetricValue], oracles: Sequence[Sequence[MetricValue]]) -> tuple[MetricValue, ...]:
    """``gap.*`` and ``gapz.*`` for every compared value of a run; empty without oracles.

    ``gap`` = value - mean over the oracle runs (``retrain``, different seeds), with their number as ``n`` and their
    standard deviation (n - 1) as ``sd``; ``gapz`` = gap / sd, None with a note for fewer than two oracles or where all
    agree exactly.
    """
    if not oracles:
        return ()
    tables = [{_key(value): value.value for value in oracle} for oracle in oracles]
    out: list[MetricValue] = []
    for value in values:
        if value.metric in _NAMES:
            key = _key(value)
            out += _compare(value, [number for table in tables if (number := table.get(key)) is not None])
    return tuple(out)


def _compare(value: MetricValue, oracle: Sequence[float]) -> tuple[MetricValue, MetricValue]:
    n = len(oracle)
    distance = scaled = spread = absent = None
    if value.value is None or not n:
        note = absent = "not measured on this run" if value.value is None else "not measured on the oracle"
    else:
        distance, note = value.value - float(np.mean(oracle)), None
        if n > 1:
            # Equal numbers leave a rounding error in a computed deviation, which is no spread to divide by.
            spread = 0.0 if min(oracle) == max(oracle) else float(np.std(oracle, ddof=1))
        if spread is None:
            note = "the spread needs two oracle seeds, there is one"
        elif spread == 0.0:
            note = f"all {n} oracle seeds agree: no spread to divide by"
        else:
            scaled = distance / spread
    shared: dict[str, Any] = {"group": value.group, "beam": value.beam, "n": n, "sd": spread}
    return (
        MetricValue(metric=f"gap.{value.metric}", value=distance, note=absent, **shared),
        MetricValue(metric=f"gapz.{value.metric}", value=scaled, note=note, **shared),
    )


def _key(value: MetricValue) -> tuple[str, Group, int | None]:
    return value.metric, value.group, value.beam


def cost_values(
    *,
    unlearn_seconds: float,
    share_of_retraining: float | None,
    peak_memory_mib: float,
    steps: int,
    tuning_trials: int = 0,
) -> tuple[MetricValue, ...]:
    """The five cost metrics; a share that is not known is None, with a note."""
    numbers = {
        "cost.unlearn-seconds": unlearn_seconds,
        "cost.share-of-retraining": share_of_retraining,
        "cost.peak-memory": peak_memory_mib,
        "cost.steps": float(steps),
        "cost.tuning-trials": float(tuning_trials),
    }
    unknown = "the oracle's training time is not known"
    return tuple(
        MetricValue(metric=name, group=Group.ALL, value=number, note=unknown if number is None else None)
        for name, number in numbers.items()
    )
