"""A measure: a metric of one group at one beam, the unit in which tables, tests and rankings are made."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.catalogue import metric_spec
from genrec_unlearn_bench.evaluation.metric import Better, Group, MetricSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Number = TypeVar("Number", float, "NDArray[np.float64]")

GAP = "gap."
"""Prefix of measures that are taken against the oracle's row, seed by seed, when a board is made. The ``gap.*`` of a
single record knows one oracle only and is not used."""
_WITHOUT_BEAM = frozenset(
    {
        *("overlap", "overlap-change", "cost", "stream"),
        *("probing", "relearning", "membership", "forget-quality", "quantisation"),
    }
)
"""Families of metrics."""
_SIDES = {group: group.value.removeprefix("retain-") for group in Group} | {Group.NEAR: "retain-near", Group.ALL: ""}
_ARROWS = {Better.LOWER: "↓", Better.HIGHER: "↑", Better.ORACLE: "→0", Better.NONE: ""}


class Measure(NamedTuple):
    """A metric of one group at one beam."""

    metric: str
    group: Group
    beam: int | None = None

    @classmethod
    def parse(cls, text: str, *, beam: int) -> Measure:
        """``forget:hr@10``, ``retain:ndcg@10/50`` (beam 50) or ``cost.unlearn-seconds``.

        Args:
            text: Group and metric; the group may be left out where the metric has only one.
            beam: Taken where the text names none and the metric is one of lists.

        Raises UnknownName for a metric that is not declared, UsageError for a group it is not declared for.
        """
        head, slash, tail = text.partition("/")
        side, colon, metric = head.rpartition(":")
        spec = metric_spec(metric)
        groups = {_SIDES[group] or group.value: group for group in spec.better} | {g.value: g for g in spec.better}
        if (colon and side not in groups) or (not colon and len(spec.better) != 1):
            hint = " or ".join(f"{name}:{spec.name}" for name in dict.fromkeys(_SIDES[g] for g in spec.better))
            raise UsageError(f"{text!r} does not say which group is meant", hint=f"write {hint}")
        if slash and not tail.isdecimal():
            raise UsageError(f"{text!r}: the beam is a number", hint=f"write {head}/10 or {head}/50")
        group = groups[side] if colon else next(iter(spec.better))
        return cls(spec.name, group, check_beam(int(tail) if slash else beam) if listed(spec.name) else None)

    @property
    def spec(self) -> MetricSpec:
        return metric_spec(self.metric)

    @property
    def base(self) -> Measure:
        """Without the prefix of a gap: what was measured on the row itself."""
        return self._replace(metric=self.metric.removeprefix(GAP))

    @property
    def better(self) -> Better:
        """Which way is better for this group."""
        return self.spec.better.get(self.group, Better.NONE)

    @property
    def side(self) -> str:
        """The group as tables call it; empty for what belongs to the whole model."""
        return _SIDES[self.group]

    @property
    def text(self) -> str:
        """As ``parse`` reads it: the name in files, addresses and options."""
        head = f"{self.side}:{self.metric}" if self.side else self.metric
        return head if self.beam is None else f"{head}/{self.beam}"

    @property
    def title(self) -> str:
        """As a sentence has it: forget HR@10."""
        return f"{self.side} {self.spec.title}".strip()

    @property
    def arrow(self) -> str:
        """↓, ↑, →0 (the nearer to the oracle the better) or nothing."""
        return _ARROWS[self.better]

    def score(self, value: Number) -> Number:
        """The value, or values, turned so that more is better; NaN for a measure without a direction."""
        match self.better:
            case Better.HIGHER:
                return value
            case Better.LOWER:
                return -value
            case Better.ORACLE:
                return -abs(value)
        return value * math.nan


def check_beam(beam: int) -> int:
    """The beam width. Raises UsageError for one that results have no lists of."""
    if beam not in (10, 50):
        raise UsageError(f"the protocol decodes at beam 10 and 50, not {beam!r}", hint="use --beam 10 or --beam 50")
    return beam


def listed(metric: str) -> bool:
    """Whether a metric has a value for each beam: those of ranked lists, not those of tokens or of the clock. What the
    full suite ranks lists for is measured at one beam, which its description names."""
    return metric.removeprefix(GAP).partition(".")[0] not in _WITHOUT_BEAM


UNLEARN_SECONDS = Measure("cost.unlearn-seconds", Group.ALL)
TUNING_SECONDS = Measure("cost.tuning-seconds", Group.ALL)
TOTAL_SHARE = Measure("cost.total-share", Group.ALL)
RECORDED_COSTS = (TUNING_SECONDS, TOTAL_SHARE)
"""Costs that no record lists among its metrics: they follow from its other fields (``results``), and where these are
empty, tables have a dash."""
