"""Gap to the retrained model, in the metric's unit and in deviations over retraining seeds; cost of unlearning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

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
from genrec_unlearn_bench.evaluation.probing import specs as probing
from genrec_unlearn_bench.evaluation.relearning import specs as relearning

__all__ = ["SPECS", "cost_values", "gap_to_oracle"]

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
    target = dict.fromkeys(base.better, Better.ORACLE)
    source = "protocol sec. 3 and 4: the target for forgetting is the retrained model's score, not zero"
    yield MetricSpec(
        name=f"gap.{base.name}",
        title=f"Δ {base.title}",
        better=target,
        range=(-width, width),
        unit=base.unit,
        description=f"{base.name} minus its mean over the oracle's runs; 0 is the oracle.",
        source=source,
    )
    yield MetricSpec(
        name=f"gapz.{base.name}",
        title=f"Δ {base.title} / sd",
        better=target,
        range=(-math.inf, math.inf),
        unit="spreads",
        description=f"gap.{base.name} divided by the standard deviation of {base.name} over the oracle's seeds.",
        source=source,
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
    """``gap.*`` and ``gapz.*`` for every USER-level value of a run.

    Args:
        values: The run's values; metrics that are not compared are passed over.
        oracles: One sequence of values for each oracle run (``retrain``, different seeds). Empty: nothing is
            returned.

    Returns:
        For each value, ``gap`` = value - mean over the oracles, with the oracles' number as ``n`` and their standard
        deviation (n - 1) as ``sd``; and ``gapz`` = gap / sd, None with a note where fewer than two oracles were
        measured or all of them agree exactly.
    """
    if not oracles:
        return ()
    tables = [{_key(value): value.value for value in oracle} for oracle in oracles]
    out: list[MetricValue] = []
    for value in values:
        if value.metric not in _NAMES:
            continue
        key = _key(value)
        found = [number for table in tables if (number := table.get(key)) is not None]
        out.extend(_compare(value, found))
    return tuple(out)


def _compare(value: MetricValue, oracle: Sequence[float]) -> tuple[MetricValue, MetricValue]:
    n = len(oracle)
    if value.value is None or not n:
        note = "not measured on this run" if value.value is None else "not measured on the oracle"
        return _gap("gap", value, None, n, None, note), _gap("gapz", value, None, n, None, note)
    spread = float(np.std(oracle, ddof=1)) if n > 1 else None
    # Equal numbers leave a rounding error in a computed deviation, which is no spread to divide by.
    spread = 0.0 if n > 1 and min(oracle) == max(oracle) else spread
    distance = value.value - float(np.mean(oracle))
    plain = _gap("gap", value, distance, n, spread, None)
    if spread is None:
        return plain, _gap("gapz", value, None, n, None, "the spread needs two oracle seeds, there is one")
    if spread == 0.0:
        return plain, _gap("gapz", value, None, n, spread, f"all {n} oracle seeds agree: no spread to divide by")
    return plain, _gap("gapz", value, distance / spread, n, spread, None)


def _gap(
    prefix: str, of: MetricValue, value: float | None, n: int, spread: float | None, note: str | None
) -> MetricValue:
    return MetricValue(
        metric=f"{prefix}.{of.metric}", group=of.group, value=value, beam=of.beam, n=n, sd=spread, note=note
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
