"""What unlearning cost, as metric values."""

from __future__ import annotations

import math

from genrec_unlearn_bench.evaluation.metric import Better, Group, Level, MetricSpec, MetricValue

__all__ = ["SPECS", "cost_values"]


def _spec(name: str, title: str, unit: str, description: str) -> MetricSpec:
    return MetricSpec(
        name=name,
        title=title,
        better={Group.ALL: Better.LOWER},
        range=(0.0, math.inf),
        unit=unit,
        level=Level.MODEL,
        description=description,
        source="protocol sec. 4",
    )


SPECS = (
    _spec("cost.unlearn-seconds", "Time", "seconds", "Wall-clock of unlearning alone."),
    _spec(
        "cost.share-of-retraining",
        "Time / retraining",
        "fraction",
        "Wall-clock of unlearning divided by that of training the oracle on the same machine kind.",
    ),
    _spec("cost.peak-memory", "Memory", "MiB", "Peak memory of the process (CPU) or the device (GPU) in unlearning."),
    _spec("cost.steps", "Steps", "count", "Optimiser steps of unlearning."),
    _spec("cost.tuning-trials", "Trials", "count", "Configurations tried before this one was chosen."),
)


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
