"""Damage on the retain side: quality on the concept's neighbours and the rest, collapsed lists, and overlap of IDs.

Neighbours are found in three ways. Those of the task (group ``retain-near``: by item text and co-purchase) are the same
rows for all tokenizers, backbones and methods; those by prefix of the original SIDs or by category path stand beside
them (``collateral.*``).

Coverage and Gini of the retain test's lists show a model that unlearned by collapsing. Both count items in the first
ten places; items that are to be forgotten (none for interaction requests) are left out of the catalogue and of the
lists, so that a model is not charged for no longer recommending them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.evaluation.catalogue import family
from genrec_unlearn_bench.evaluation.measurement import unmeasured
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import (
    RANK_METRICS,
    FloatArray,
    UserBlock,
    blocks,
    difference_interval,
    mean_interval,
    user_mean,
)
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.sids.overlap import overlap, overlap_lift, prefix_sharing, token_coverage
from genrec_unlearn_bench.sids.table import SidTable, prefix_ids

if TYPE_CHECKING:
    import pandas as pd

    from genrec_unlearn_bench.evaluation.decode import EvaluationContext

_RELATIONS = ("prefix", "category")
_METRICS = ("hr@10", "ndcg@10")
_NOTHING = np.empty(0)
MAX_LEVELS = 8
"""Levels reported one by one; the mean covers all."""
_CHANGED = ("overlap.mean", "overlap.shared-prefix", "overlap.covered-codes")


def prefix_depth(table: SidTable) -> int:
    """Number of leading codes that neighbours share: two, or one where two would be the whole SID."""
    return max(1, min(2, table.quantised_levels - 1))


def prefix_neighbours(table: SidTable, concept: BoolArray) -> BoolArray:
    """[N] whether an item shares its leading codes with a concept item (concept items themselves included)."""
    keys = prefix_ids(table.quantised_codes)[:, prefix_depth(table) - 1]
    return np.asarray(np.isin(keys, keys[concept]), dtype=np.bool_)


def category_neighbours(items: ItemTable, concept: BoolArray) -> NDArray[np.int8]:
    """[N] 1 for an item with the whole category path of a concept item, 0 for another path, -1 without categories."""
    paths = {items.categories[item] for item in np.flatnonzero(concept)}
    flags = ((int(path in paths) if path else -1) for path in items.categories)
    return np.fromiter(flags, dtype=np.int8, count=len(items))


def collateral_values(user_blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """HR@10 and NDCG@10 of neighbours and rest with 95 % t intervals, for the retain blocks."""
    return [
        user_mean(
            f"collateral.{relation}.{name}",
            side,
            RANK_METRICS[name](block.integers("rank"))[rows],
            beam=block.beam,
            empty="no retain test target is known to be on this side of the concept",
            interval=True,
        )
        for block in user_blocks
        if block.group is Group.RETAIN
        for relation, name, side, rows in _sides(block)
    ]


def _sides(block: UserBlock) -> Iterator[tuple[str, str, Group, BoolArray]]:
    """Every relation with its metric and side, and the rows [M] of that side."""
    for relation in _RELATIONS:
        near = block.integers(f"near_{relation}")
        for name in _METRICS:
            yield relation, name, Group.NEIGHBOURS, near == 1
            yield relation, name, Group.REST, near == 0


def retain_near_values(user_blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """Every ranking metric of the retain examples near the concept, as the task defines it."""
    out = []
    for block in user_blocks:
        if block.group is not Group.RETAIN:
            continue
        near = block.integers("near_concept")
        ranks, empty = block.integers("rank")[near == 1], "no retain test target is a neighbour of the concept"
        if not (near >= 0).any():
            empty = "the concept's neighbours are not known"
        for name, score in RANK_METRICS.items():
            out.append(user_mean(name, Group.NEAR, score(ranks), beam=block.beam, empty=empty))
    return out


def change_from_original(
    values: Sequence[MetricValue],
    original: Sequence[MetricValue],
    *,
    tables: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> tuple[MetricValue, ...]:
    """Change of the collateral values by unlearning: this run's minus those of the ``original`` row.

    Gives ``collateral-change.*`` by side, and ``collateral-excess.*``: the neighbours' change minus the rest's. With
    the per-user ``tables`` of the run and of the original every change has the 95 % t interval of the paired
    differences, and every excess Welch's for the difference of two means.
    """
    before = {(v.metric, v.group, v.beam): v.value for v in original}
    differences = {} if tables is None else _differences(*tables)
    out: list[MetricValue] = []
    changes: dict[tuple[str, int | None], dict[Group, float | None]] = {}
    for value in values:
        family, _, rest = value.metric.partition(".")
        if family != "collateral":
            continue
        earlier = before.get((value.metric, value.group, value.beam))
        change = None if value.value is None or earlier is None else value.value - earlier
        changes.setdefault((rest, value.beam), {})[value.group] = change
        interval = None if change is None else mean_interval(differences.get((rest, value.beam, value.group), _NOTHING))
        note = None if change is not None else "not measured here or on the original"
        changed = {"metric": f"collateral-change.{rest}", "value": change, "sd": None}
        out.append(value.model_copy(update={**changed, "interval": interval, "note": note}))
    for (rest, beam), by_side in changes.items():
        near, far = by_side.get(Group.NEIGHBOURS), by_side.get(Group.REST)
        excess = None if near is None or far is None else near - far
        note = None if excess is not None else "one side was not measured"
        name = f"collateral-excess.{rest}"
        sides = [differences.get((rest, beam, side), _NOTHING) for side in (Group.NEIGHBOURS, Group.REST)]
        interval = None if excess is None else difference_interval(*sides)
        out.append(MetricValue(metric=name, group=Group.RETAIN, value=excess, beam=beam, interval=interval, note=note))
    return tuple(out)


def _differences(own: pd.DataFrame, original: pd.DataFrame) -> dict[tuple[str, int | None, Group], FloatArray]:
    """By metric (``prefix.hr@10``), beam and side: the run's score of each example minus the original's, for the blocks
    whose examples are the same in both tables."""
    found: dict[tuple[str, int | None, Group], FloatArray] = {}
    for one, other in zip(blocks(own), blocks(original), strict=True):
        if one.group is not Group.RETAIN or any(
            not np.array_equal(one.integers(column), other.integers(column)) for column in ("example", "target")
        ):
            continue
        for relation, name, side, rows in _sides(one):
            score = RANK_METRICS[name]
            moved = score(one.integers("rank")) - score(other.integers("rank"))
            found[f"{relation}.{name}", one.beam, side] = moved[rows]
    return found


def collapse_values(beam: int, counts: IntArray) -> Iterator[MetricValue]:
    """Both metrics at one beam, from the counts of ``recommended``."""
    shared: dict[str, Any] = {"group": Group.RETAIN, "beam": beam, "n": len(counts)}
    for name, measure in (("coverage@10", lambda each: float((each > 0).mean())), ("gini@10", gini)):
        if counts.any():
            yield MetricValue(metric=name, value=measure(counts), **shared)
        else:
            yield MetricValue(metric=name, value=None, note="no item that may stay is recommended", **shared)


def recommended(items: IntArray, concept: BoolArray) -> IntArray:
    """Count of each unmarked item in the lists [M, k] (-1 at empty places), in the order of the catalogue."""
    counts = np.bincount(items[items >= 0], minlength=len(concept))
    return np.asarray(counts[~concept], dtype=np.int64)


def gini(counts: IntArray) -> float:
    """Gini coefficient of counts [n] with a sum above 0: their mean absolute difference over twice their mean."""
    ordered = np.sort(counts).astype(np.float64)
    n = len(ordered)
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float(weights @ ordered / (n * ordered.sum()))


def overlap_values(context: EvaluationContext) -> tuple[MetricValue, ...]:
    """Ω and its companions on the ranker's table, and their change from the original table where that is given.

    None with a note for rankers without semantic IDs, and for requests that name no concept items (or nothing else).
    """
    from genrec_unlearn_bench.backbones.recommender import Recommender

    concept, original, ranker = context.split.items, context.original_sids, context.ranker
    if not isinstance(ranker, Recommender) or not concept.any() or concept.all():
        reason = "the request names no concept items" if not concept.any() else "there are no retain items"
        reason = reason if isinstance(ranker, Recommender) else "this ranker has no semantic IDs"
        whole = [spec for spec in family("overlap.") if not spec.name.startswith("overlap.level")]
        return unmeasured((*whole, *family("overlap-change.")), reason)
    now = table_overlap(ranker.sids, concept, seed=context.seed)
    if original is None:
        return (*now, *unmeasured(family("overlap-change."), "the original table is not known"))
    before = now if original.digest == ranker.sids.digest else table_overlap(original, concept, seed=context.seed)
    earlier = {value.metric: value.value for value in before}
    changes = []
    for value in now:
        if value.metric in _CHANGED and value.value is not None and (old := earlier[value.metric]) is not None:
            name = value.metric.replace("overlap.", "overlap-change.")
            changes.append(MetricValue(metric=name, group=Group.ALL, value=value.value - old, n=value.n))
    return (*now, *changes)


def table_overlap(table: SidTable, concept: BoolArray, *, seed: int) -> tuple[MetricValue, ...]:
    """Ω by level, its mean and lift, shared prefixes and covered codes of the marked items [N] in one table.

    Code levels alone: the collision ordinal is 0 for nearly every item, and would dominate the mean.
    """
    codes, measured = table.quantised_codes, overlap(table, concept)
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
