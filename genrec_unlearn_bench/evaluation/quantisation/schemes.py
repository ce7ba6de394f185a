"""The ways to quantise: parts of the measurement, and ends of its metrics' names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["FULL", "SCHEMES"]

FULL = "full"
"""The part that measures the model as it is."""

SCHEMES: Mapping[str, str] = MappingProxyType(
    {
        "int8": "8-bit round-to-nearest weights",
        "int4": "4-bit round-to-nearest weights",
        "nf4": "4-bit NormalFloat weights (bitsandbytes; causal models on a GPU)",
    }
)
"""Name -> what it is."""
