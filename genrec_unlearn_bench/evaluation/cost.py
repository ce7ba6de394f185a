"""Cost of unlearning: time, memory, steps and tuning."""

from __future__ import annotations

import math

from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricSpec, MetricValue

__all__ = ["SPECS", "cost_values"]


SPECS = tuple(
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
