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

_QUESTIONS: Mapping[str, str] = MappingProxyType(
    {
        "probing": "Can a linear probe on hidden states tell the concept, by site and layer?",
        "membership": "Can forgotten interactions be told from never-trained ones of the same concept?",
        "forget-quality": "Are answers to forgotten examples distributed as the retrained model's?",
        "quantisation": "Does the concept come back with 8 or 4 bits a weight, and what does that cost?",
        "relearning": "Does the concept come back under fine-tuning faster than a retrained model learns it?",
    }
)


def measurements() -> Mapping[str, str]:
    """Names of the measurements beyond the core with what each asks, in the order in which they are taken."""
    return _QUESTIONS


def find_measurement(name: str) -> Measurement:
    """The measurement of that name. Raises UnknownName."""
    if name not in _TARGETS:
        raise UnknownName("measurement", name, _TARGETS)
    module, _, found = _TARGETS[name].partition(":")
    measurement: Measurement = getattr(importlib.import_module(f"genrec_unlearn_bench.evaluation.{module}"), found)()
    return measurement
