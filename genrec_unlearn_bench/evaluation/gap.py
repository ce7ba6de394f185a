"""Gap to the retrained model, in the metric's unit and in deviations over retraining seeds; cost of unlearning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from genrec_unlearn_bench.evaluation.catalogue import compared
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue


def gap_to_oracle(values: Sequence[MetricValue], oracles: Sequence[Sequence[MetricValue]]) -> tuple[MetricValue, ...]:
    """``gap.*`` and ``gapz.*`` for every compared value of a run; empty without oracles.

    ``gap`` = value - mean over the oracle runs (``retrain``, different seeds), with their number as ``n`` and their
    standard deviation (n - 1) as ``sd``; ``gapz`` = gap / sd, None with a note for fewer than two oracles or where all
    agree exactly.
    """
    if not oracles:
        return ()
    names = compared()
    tables = [{_key(value): value.value for value in oracle} for oracle in oracles]
    out: list[MetricValue] = []
    for value in values:
        if value.metric in names:
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
