"""Overlap of the concept's semantic IDs with the retain items', and its change from the original table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from genrec_unlearn_bench.data.examples import BoolArray
from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.collateral import prefix_depth
from genrec_unlearn_bench.evaluation.measurement import unmeasured
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.overlap import overlap, overlap_lift, prefix_sharing, token_coverage
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.decode import EvaluationContext

MAX_LEVELS = 8
"""Levels reported one by one; the mean covers all."""
_CHANGED = ("overlap.mean", "overlap.shared-prefix", "overlap.covered-codes")


def overlap_values(context: EvaluationContext) -> tuple[MetricValue, ...]:
    """Ω and its companions on the ranker's table, and their change from the original table where that is given.

    None with a note for rankers without semantic IDs, and for requests that name no concept items (or nothing else).
    """
    from genrec_unlearn_bench.backbones.recommender import Recommender

    concept, original = context.split.items, context.original_sids
    reason = ""
    if not isinstance(context.ranker, Recommender):
        reason = "this ranker has no semantic IDs"
    elif not concept.any() or concept.all():
        reason = "the request names no concept items" if not concept.any() else "there are no retain items"
    if reason or not isinstance(context.ranker, Recommender):
        whole = [spec for spec in family("overlap.") if not spec.name.startswith("overlap.level")]
        return unmeasured((*whole, *family("overlap-change.")), reason)
    now = table_overlap(context.ranker.sids, concept, seed=context.seed)
    if original is None:
        return (*now, *unmeasured(family("overlap-change."), "the original table is not known"))
    same = original.digest == context.ranker.sids.digest
    before = now if same else table_overlap(original, concept, seed=context.seed)
    return (*now, *_changes(now, before))


def table_overlap(table: SidTable, concept: BoolArray, *, seed: int) -> tuple[MetricValue, ...]:
    """Ω by level, its mean and lift, shared prefixes and covered codes of the marked items [N] in one table.

    Code levels alone: the collision ordinal is 0 for nearly every item, and would dominate the mean.
    """
    codes = table.quantised_codes
    measured = overlap(table, concept)
    lift = overlap_lift(codes, concept, seed=derive(seed, "overlap-lift"))
    coverage = token_coverage(codes, concept)
    numbers = {
        "overlap.mean": measured.quantised,
        "overlap.lift": lift.lift,
        "overlap.lift.null-low": lift.null_low,
        "overlap.lift.null-high": lift.null_high,
        "overlap.shared-prefix": prefix_sharing(codes, concept, prefix_depth(table)),
        "overlap.covered-codes": math.fsum(coverage) / len(coverage),
        **{
            f"overlap.level{level}": value
            for level, value in enumerate(measured.per_level[: min(table.quantised_levels, MAX_LEVELS)], start=1)
        },
    }
    n = int(concept.sum())
    return tuple(MetricValue(metric=name, group=Group.ALL, value=value, n=n) for name, value in numbers.items())


def _changes(now: tuple[MetricValue, ...], before: tuple[MetricValue, ...]) -> tuple[MetricValue, ...]:
    earlier = {value.metric: value.value for value in before}
    out = []
    for value in now:
        old = earlier.get(value.metric)
        if value.metric in _CHANGED and value.value is not None and old is not None:
            name = value.metric.replace("overlap.", "overlap-change.")
            out.append(MetricValue(metric=name, group=Group.ALL, value=value.value - old, n=value.n))
    return tuple(out)
