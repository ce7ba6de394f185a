"""The configurations of a suite's measurements: each one's preset of the scale, with what the user changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation.suites import Suite, find_measurement
from genrec_unlearn_bench.pipeline.request import changed

__all__ = ["OPTION", "measure_configs"]

OPTION = "--set-measure"


def measure_configs(suite: Suite, scale: str, fields: Mapping[str, Any]) -> dict[str, StrictModel]:
    """Configurations by measurement.

    Args:
        fields: ``relearning.lr`` -> value: the measurement's name, then the field's.

    Raises:
        UnknownName: A field names a measurement that the suite does not take.
        ConfigError: A measurement has no such field, or refuses the value.
    """
    asked: dict[str, dict[str, Any]] = {name: {} for name in suite.measurements}
    for place, value in fields.items():
        name, _, field = place.partition(".")
        if name not in asked:
            raise UnknownName("measurement", name, asked)
        asked[name][field] = value
    return {
        name: changed(find_measurement(name).config(scale), own, where=f"{OPTION} {name}")
        for name, own in asked.items()
    }
