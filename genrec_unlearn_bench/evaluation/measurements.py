"""The measurements beyond the core, by name. Nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import UnknownName

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.measurement import Measurement

__all__ = ["find_measurement", "measurements"]


_TARGETS: Mapping[str, str] = MappingProxyType(
    {
        "probing": "probing.measurement:Probing",
        "membership": "membership.measurement:Membership",
        "forget-quality": "forget_quality.measurement:ForgetQuality",
        "quantisation": "quantisation.measurement:Quantisation",
        "relearning": "relearning.measurement:Relearning",
    }
)
"""Name -> ``module:Class`` below ``genrec_unlearn_bench.evaluation``."""


def measurements() -> tuple[str, ...]:
    """Names of the measurements beyond the core, in the order in which they are taken."""
    return tuple(_TARGETS)


def find_measurement(name: str) -> Measurement:
    """The measurement of that name. Raises UnknownName."""
    if name not in _TARGETS:
        raise UnknownName("measurement", name, _TARGETS)
    module, _, found = _TARGETS[name].partition(":")
    measurement: Measurement = getattr(importlib.import_module(f"genrec_unlearn_bench.evaluation.{module}"), found)()
    return measurement
