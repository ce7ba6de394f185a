"""The suites of measurements: what each takes, and what it has to keep away from training for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.evaluation.measurements import measurements

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CORE", "FULL", "Suite", "find_suite", "suites"]


@dataclass(frozen=True)
class Suite:
    """A named set of measurements.

    Attributes:
        name: As ``--suite`` says it.
        holdout: Whether a part of the train interactions is never trained on (``data.holdout``). Such a suite has an
            original and oracles of its own: its numbers and those of a suite without never share a table.
        measurements: What is taken beyond the core, by name, in this order.
    """

    name: str
    holdout: bool = False
    measurements: tuple[str, ...] = ()


CORE = Suite("core")
FULL = Suite("full", holdout=True, measurements=tuple(measurements()))

_SUITES = MappingProxyType({suite.name: suite for suite in (CORE, FULL)})


def suites() -> Mapping[str, Suite]:
    """The suites by name, the smallest first."""
    return _SUITES


def find_suite(name: str, only: Sequence[str] = ()) -> Suite:
    """The suite of that name, cut down to the measurements in ``only`` where some are named.

    Raises:
        UnknownName: No such suite, or no such measurement.
        UsageError: The suite takes nothing beyond the core, and some measurement was named.
    """
    if name not in _SUITES:
        raise UnknownName("suite", name, _SUITES)
    suite = _SUITES[name]
    if not only:
        return suite
    known = measurements()
    for wanted in only:
        if wanted not in known:
            raise UnknownName("measurement", wanted, known)
    if not suite.holdout:
        raise UsageError(
            f"the suite {name!r} takes the core measurements alone, and --measure names {', '.join(only)}",
            hint="use --suite full --measure NAME, or leave --measure out",
        )
    return replace(suite, measurements=tuple(found for found in known if found in only))
