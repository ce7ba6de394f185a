"""Reduced settings for runs that only ask whether a method works: ``bench check``, the smoke matrix, odd inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genrec_unlearn_bench.unlearning.method import MethodConfig

__all__ = ["SETTINGS", "STEPS", "reduced_fields"]

STEPS = 3
"""Optimiser steps of every method whose configuration has ``max_steps``."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # P5's trees have no codebooks; where there are some, the field changes nothing.
    "tracer": {"soft_epochs": 1, "hard_epochs": 1, "surrogate_codebooks": True},
    "random-reassign": {"epochs": 1},
    "theta-only": {"epochs": 1},
    # Its default turns back a step that costs too much, and a run of three may then have taken none.
    "grad-ascent": {"retain_ceiling": None},
    # Whatever the autoencoders of a run of seconds are worth, they are used, so that an edit takes place.
    "pisces": {
        "sae_rows": 1024,
        "sae_steps": 20,
        "fvu_ceiling": 10.0,
        "splice_floor": 0.0,
        "retain_drop": 1.0,
        "retain_floor": 0.0,
        "evaluations": 2,
        "valid_rows": 32,
        "pairs": 128,
    },
}
"""Further fields that differ from the defaults, by method."""


def reduced_fields(method: str, config: type[MethodConfig]) -> dict[str, Any]:
    """Fields to change for a run of seconds; none for a method that is neither listed nor trained by steps."""
    steps = {"max_steps": STEPS} if "max_steps" in config.model_fields else {}
    return {**steps, **SETTINGS.get(method, {})}
