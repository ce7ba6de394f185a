"""Suites and the measurements beyond the core, by name. No measurement is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.registry import imported

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.measurement import Measurement

_MEASUREMENTS = {
    "probing": (
        "probing.measurement:Probing",
        "Can a linear probe on hidden states tell the concept, by site and layer?",
    ),
    "membership": (
        "membership:Membership",
        "Can forgotten interactions be distinguished from never-trained ones of the same concept?",
    ),
    "forget-quality": (
        "forget_quality:ForgetQuality",
        "Are answers to forgotten examples distributed as the retrained model's?",
    ),
    "quantisation": (
        "quantisation:Quantisation",
        "Does the concept come back with 8 or 4 bits a weight, and what does that cost?",
    ),
    "relearning": (
        "relearning.measurement:Relearning",
        "Does the concept come back under fine-tuning faster than a retrained model learns it?",
    ),
}
"""Name -> ``module:Class`` below ``genrec_unlearn_bench.evaluation``, and the question it answers."""


def measurements() -> Mapping[str, str]:
    """Names and questions of the measurements beyond the core, in the order in which they are taken."""
    return {name: question for name, (_, question) in _MEASUREMENTS.items()}


@dataclass(frozen=True)
class Suite:
    """A named set of measurements.

    ``holdout``: a part of the train interactions is never trained on (``data.holdout``). Such a suite has an original
    and oracles of its own: its numbers and those of a suite without never share a table. ``measurements``: those beyond
    the core, in the order in which they are taken.
    """

    name: str
    holdout: bool = False
    measurements: tuple[str, ...] = ()


SUITES = {"core": Suite("core"), "full": Suite("full", holdout=True, measurements=tuple(_MEASUREMENTS))}
"""The suites by name, the smallest first."""


def find_suite(name: str, only: Sequence[str] = ()) -> Suite:
    """The suite of that name, cut down to the measurements in ``only`` where some are named.

    Raises UnknownName for an unknown suite or measurement, UsageError where the suite takes nothing beyond the core.
    """
    suite = SUITES[one_of("suite", name, SUITES)]
    if not only:
        return suite
    for wanted in only:
        one_of("measurement", wanted, _MEASUREMENTS)
    if not suite.holdout:
        raise UsageError(
            f"the suite {name!r} takes the core measurements alone, and --measure names {', '.join(only)}",
            hint="use --suite full --measure NAME, or leave --measure out",
        )
    return replace(suite, measurements=tuple(found for found in _MEASUREMENTS if found in only))


def find_measurement(name: str) -> Measurement:
    place, _ = _MEASUREMENTS[one_of("measurement", name, _MEASUREMENTS)]
    measurement: Measurement = imported(f"genrec_unlearn_bench.evaluation.{place}")()
    return measurement
