"""Do the record's numbers follow from its table, and from each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group, Level, MetricValue
from genrec_unlearn_bench.evaluation.per_user import recompute
from genrec_unlearn_bench.submissions.bundle import Bundle, Result
from genrec_unlearn_bench.submissions.faults import Finding
from genrec_unlearn_bench.submissions.table import rests_on

if TYPE_CHECKING:
    import pandas as pd

EXACT = 1e-12
"""How far a mean may differ that is summed from the same numbers in the same order by another NumPy."""
_SHOWN = 5

Key = tuple[str, Group, int | None]


def check_rescored(bundle: Bundle, result: Result, table: pd.DataFrame, withheld: frozenset[str]) -> Iterator[Finding]:
    recorded, found = by_key(result.record.metrics), by_key(recompute(table))
    users, where = _user_level(), result.at("metrics")
    wrong = []
    for key, value in found.items():
        if rests_on(key[0]) in withheld:
            continue
        if key not in recorded:
            wrong.append((key, "is missing"))
        elif difference := _difference(recorded[key], value):
            wrong.append((key, difference))
    wrong += [(key, "is not measured by the suite") for key in recorded if key[0] in users and key not in found]
    yield from ((where, f"{_name(key)} {what}") for key, what in wrong[:_SHOWN])
    if len(wrong) > _SHOWN:
        yield where, f"{len(wrong) - _SHOWN} more aggregates do not follow from the table"


def check_bounds(bundle: Bundle, result: Result) -> Iterator[Finding]:
    """Invariants between metrics of the same lists, in this result and in the oracle that its gaps imply."""
    for sentence in check_invariants(result.record.metrics)[:_SHOWN]:
        yield result.at("metrics"), f"an invariant is broken: {sentence}"
    means = implied_oracle(result.record.metrics).items()
    oracle = [MetricValue(metric=name, group=group, beam=beam, value=mean) for (name, group, beam), mean in means]
    for sentence in check_invariants(oracle)[:_SHOWN]:
        yield result.at("metrics"), f"the gaps imply an oracle that cannot be: {sentence}"


def check_derived(bundle: Bundle, result: Result) -> Iterator[Finding]:
    """``gap``, ``gapz`` and the collateral excess are what their parts give, and none is left out."""
    recorded, where = by_key(result.record.metrics), result.at("metrics")
    gaps = {key for key in recorded if key[0].startswith("gap.")}
    known = metric_specs()
    wanted = {(f"gap.{name}", group, beam) for name, group, beam in recorded if f"gap.{name}" in known}
    if gaps and gaps != wanted:
        name = _name(sorted(gaps ^ wanted, key=str)[0])
        yield where, f"{name}: gaps are given for some metrics and left out for others"
    for name, group, beam in sorted(gaps, key=str):
        gap, scaled = recorded[(name, group, beam)], recorded.get((f"gapz.{name.removeprefix('gap.')}", group, beam))
        if fault := _scaled_fault(gap, scaled):
            yield where, f"{_name((name, group, beam))}: {fault}"
    for (name, group, beam), value in recorded.items():
        if name.startswith("collateral-excess.") and value.value is not None:
            change = f"collateral-change.{name.removeprefix('collateral-excess.')}"
            near, far = (recorded.get((change, side, beam)) for side in (Group.NEIGHBOURS, Group.REST))
            parts = (near.value if near else None, far.value if far else None)
            if parts[0] is None or parts[1] is None or abs(parts[0] - parts[1] - value.value) > EXACT:
                yield where, f"{_name((name, group, beam))} is not the difference of its two sides"


def rescored(result: Result, withheld: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the record's metrics that were computed again, and of those that were not."""
    users = _user_level()
    names = list(dict.fromkeys(value.metric for value in result.record.metrics))
    again = [name for name in names if name in users and rests_on(name) not in withheld]
    return tuple(again), tuple(name for name in names if name not in again)


def by_key(values: Iterable[MetricValue]) -> dict[Key, MetricValue]:
    return {(value.metric, value.group, value.beam): value for value in values}


def _user_level() -> frozenset[str]:
    return frozenset(name for name, spec in metric_specs().items() if spec.level is Level.USER)


def _difference(recorded: MetricValue, found: MetricValue) -> str | None:
    for part, one, other in (("", recorded.value, found.value), ("sd ", recorded.sd, found.sd)):
        if (one is None) != (other is None) or (one is not None and other is not None and abs(one - other) > EXACT):
            return f"is {part}{_shown(one)} in the record, the table gives {part}{_shown(other)}"
    if recorded.n != found.n:
        return f"is said to be over {recorded.n} examples, the table has {found.n}"
    # Metrics have been given intervals since the first results were published, so a record may lack one.
    if recorded.interval is None:
        return None
    if found.interval is None:
        return f"has the interval {recorded.interval} in the record, the table gives none"
    if max(abs(one - other) for one, other in zip(recorded.interval, found.interval, strict=True)) > 1e-9:
        return f"has the interval {recorded.interval} in the record, the table gives {found.interval}"
    return None


def implied_oracle(values: Sequence[MetricValue]) -> dict[Key, float]:
    """The oracle's means: value minus gap. Means keep every bound, as all bounds are linear."""
    recorded, means = by_key(values), {}
    for (name, group, beam), gap in recorded.items():
        base = recorded.get((name.removeprefix("gap."), group, beam))
        if name.startswith("gap.") and base and base.value is not None and gap.value is not None:
            means[base.metric, group, beam] = base.value - gap.value
    return means


def _scaled_fault(gap: MetricValue, scaled: MetricValue | None) -> str | None:
    if scaled is None:
        return "its gapz is missing"
    if gap.value is None or not gap.sd:
        return None if scaled.value is None else "gapz is given without a spread to divide by"
    if scaled.value is None:
        return "gapz is missing"
    right = math.isclose(scaled.value, gap.value / gap.sd, rel_tol=1e-9, abs_tol=1e-12)
    return None if right else f"gapz is {scaled.value:.6g}, gap / sd gives {gap.value / gap.sd:.6g}"


def _name(key: Key) -> str:
    metric, group, beam = key
    return f"{metric} ({group.value}{'' if beam is None else f', beam {beam}'})"


def _shown(value: float | None) -> str:
    return "empty" if value is None else f"{value:.12g}"
