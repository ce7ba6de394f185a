"""Bounds that hold between metrics of the same lists. A result that breaks one is wrong and is not written.

With one relevant item each bound holds for every single list, and each is linear, so that it holds for means over
users and over runs as well: it can be checked on published tables, with a tolerance for their rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import MetricSpec, MetricValue

TOLERANCE = 1e-9
_FAMILIES = ("", "collateral.prefix.", "collateral.category.", "original-sids.", "exposed.", "worst-case.")
"""Prefixes under which metrics of one set of lists are reported."""


_TENTH, _SIXTH = 1.0 / math.log2(11), 1.0 / math.log2(7)
"""Discounts of the tenth and the sixth place."""

# (smaller, larger): sums of coefficient * metric, where smaller <= larger. A target that enters the list between two
# cut-offs gains between the discount of the last and that of the first place in between.
_Terms = tuple[tuple[float, str], ...]
_BOUNDS: tuple[tuple[str, _Terms, _Terms], ...] = (
    ("HR@1 <= HR@5", ((1, "hr@1"),), ((1, "hr@5"),)),
    ("HR@5 <= HR@10", ((1, "hr@5"),), ((1, "hr@10"),)),
    ("HR@1 <= NDCG@5", ((1, "hr@1"),), ((1, "ndcg@5"),)),
    ("HR@1 <= MRR@10", ((1, "hr@1"),), ((1, "mrr@10"),)),
    ("NDCG@5 <= HR@5", ((1, "ndcg@5"),), ((1, "hr@5"),)),
    ("NDCG@10 <= HR@10", ((1, "ndcg@10"),), ((1, "hr@10"),)),
    ("MRR@10 <= NDCG@10", ((1, "mrr@10"),), ((1, "ndcg@10"),)),
    ("MRR@10 <= HR@5 + (HR@10 - HR@5) / 6", ((1, "mrr@10"),), ((5 / 6, "hr@5"), (1 / 6, "hr@10"))),
    (
        "(HR@10 - HR@5) / log2(11) <= NDCG@10 - NDCG@5",
        ((_TENTH, "hr@10"), (1, "ndcg@5")),
        ((1, "ndcg@10"), (_TENTH, "hr@5")),
    ),
    (
        "NDCG@10 - NDCG@5 <= (HR@10 - HR@5) / log2(7)",
        ((1, "ndcg@10"), (_SIXTH, "hr@5")),
        ((_SIXTH, "hr@10"), (1, "ndcg@5")),
    ),
)


def check_bounds(numbers: Mapping[str, float], *, tolerance: float = TOLERANCE) -> list[str]:
    """The bounds that one set of ranking metrics breaks, as sentences; those over absent metrics are skipped.

    ``tolerance``: how much a bound may be missed by (0.0011 for tables rounded to three places).
    """
    broken = []
    for name, smaller, larger in _BOUNDS:
        if any(metric not in numbers for _, metric in (*smaller, *larger)):
            continue
        left = sum(factor * numbers[metric] for factor, metric in smaller)
        right = sum(factor * numbers[metric] for factor, metric in larger)
        if left > right + tolerance:
            metrics = dict.fromkeys(metric for _, metric in (*smaller, *larger))
            shown = ", ".join(f"{metric} {numbers[metric]:.6g}" for metric in metrics)
            broken.append(f"{name} is broken by {left - right:.3g} ({shown})")
    return broken


def check_invariants(values: Sequence[MetricValue]) -> list[str]:
    """Everything that is wrong with the values of one run, as sentences; empty if nothing is.

    Checked: the metric is declared for its group; it is reported once; the value is finite and in its declared
    range, or None with a note; n and standard deviation are possible; the interval holds the value; and the bounds
    between the ranking metrics of the same group, beam and family of lists.
    """
    specs = metric_specs()
    faults: list[str] = []
    seen: set[tuple[object, ...]] = set()
    lists: dict[tuple[str, str, int | None], dict[str, float]] = {}
    for value in values:
        place = f"{value.metric} ({value.group.value}" + (")" if value.beam is None else f", beam {value.beam})")
        spec = specs.get(value.metric)
        key = (value.metric, value.group, value.beam)
        if spec is None:
            faults.append(f"{place}: no such metric is declared")
            continue
        if key in seen:
            faults.append(f"{place}: stands there twice")
        seen.add(key)
        faults.extend(f"{place}: {fault}" for fault in _faults(value, spec))
        if value.value is None or not math.isfinite(value.value):
            continue
        for family in _FAMILIES:
            name = value.metric.removeprefix(family)
            if value.metric.startswith(family) and "." not in name:
                lists.setdefault((family, value.group.value, value.beam), {})[name] = value.value
    for (family, group, beam), numbers in lists.items():
        where = f"{family or 'ranking.'}* ({group}, beam {beam})"
        faults.extend(f"{where}: {fault}" for fault in check_bounds(numbers))
    return faults


def _faults(value: MetricValue, spec: MetricSpec) -> Iterable[str]:
    if value.group not in spec.better:
        yield "the metric is not declared for this group"
    if value.n is not None and value.n < 0:
        yield f"n is {value.n}"
    if value.sd is not None and not (math.isfinite(value.sd) and value.sd >= 0):
        yield f"the standard deviation is {value.sd}"
    if value.value is None:
        if not value.note:
            yield "there is no value, and no note says why"
        return
    if not math.isfinite(value.value):
        yield f"the value is {value.value}"
        return
    low, high = spec.range
    if not low - TOLERANCE <= value.value <= high + TOLERANCE:
        yield f"{value.value} lies outside [{low}, {high}]"
    if value.n == 0:
        yield "a value was computed from nothing (n = 0)"
    if value.interval is not None:
        lower, upper = value.interval
        if not (math.isfinite(lower) and math.isfinite(upper)):
            yield f"the interval [{lower}, {upper}] is not finite"
        elif not lower - TOLERANCE <= value.value <= upper + TOLERANCE:
            yield f"{value.value} lies outside its interval [{lower}, {upper}]"
