"""Damage on the retain side: quality on the concept's neighbours and on the rest, its change, and collapsed lists.

Neighbours are found in three ways. Those of the task (group ``retain-near``: by item text and co-purchase) are the same
rows for all tokenizers, backbones and methods; those by prefix of the original SIDs or by category path stand beside
them (``collateral.*``).

Coverage and Gini of the retain test's lists show a model that unlearned by collapsing. Both count items in the first
ten places; items that are to be forgotten (none for interaction requests) are left out of the catalogue and of the
lists, so that a model is not charged for no longer recommending them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import (
    RANK_METRICS,
    FloatArray,
    UserBlock,
    blocks,
    difference_interval,
    mean_interval,
    rank_metric,
    user_mean,
)
from genrec_unlearn_bench.sids.table import SidTable, prefix_ids

if TYPE_CHECKING:
    import pandas as pd

_RELATIONS = ("prefix", "category")
_METRICS = ("hr@10", "ndcg@10")
_SIDES = (Group.NEIGHBOURS, Group.REST)
_NOTHING = np.empty(0)


def prefix_depth(table: SidTable) -> int:
    """Number of leading codes that neighbours share: two, or one where two would be the whole SID."""
    return max(1, min(2, table.quantised_levels - 1))


def prefix_neighbours(table: SidTable, concept: BoolArray) -> BoolArray:
    """[N] whether an item shares its leading codes with a concept item (concept items themselves included)."""
    keys = prefix_ids(table.quantised_codes)[:, prefix_depth(table) - 1]
    return np.asarray(np.isin(keys, keys[concept]), dtype=np.bool_)


def category_neighbours(items: ItemTable, concept: BoolArray) -> NDArray[np.int8]:
    """[N] 1 for an item with the category path of a concept item, 0 for another path, -1 without categories.

    The whole path counts: its first part is the same for a whole shop.
    """
    paths = {items.categories[item] for item in np.flatnonzero(concept)}
    flags = ((int(path in paths) if path else -1) for path in items.categories)
    return np.fromiter(flags, dtype=np.int8, count=len(items))


def neighbour_flags(near: NDArray[np.int8] | BoolArray | None, targets: IntArray) -> NDArray[np.int8]:
    """[M] 1 neighbour, 0 rest, -1 not known, for the targets of retain examples. ``near``: [N] or None."""
    if near is None:
        return np.full(len(targets), -1, dtype=np.int8)
    return np.asarray(near[targets], dtype=np.int8)


def collateral_values(user_blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """HR@10 and NDCG@10 of neighbours and rest with 95 % t intervals, for the retain blocks."""
    out = []
    for block in user_blocks:
        if block.group is not Group.RETAIN:
            continue
        ranks = block.integers("rank")
        for relation in _RELATIONS:
            near = block.integers(f"near_{relation}")
            for name in _METRICS:
                scores = rank_metric(name).of(ranks)
                for side, wanted in ((Group.NEIGHBOURS, 1), (Group.REST, 0)):
                    out.append(
                        user_mean(
                            f"collateral.{relation}.{name}",
                            side,
                            scores[near == wanted],
                            beam=block.beam,
                            empty=_why_empty(relation, bool((near >= 0).any()), side),
                            interval=True,
                        )
                    )
    return out


def retain_near_values(user_blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """Every ranking metric of the retain examples whose target is near the concept, as the task defines it.

    Nothing for tables of protocol 1, which do not have the column.
    """
    out = []
    for block in user_blocks:
        if block.group is not Group.RETAIN or "near_concept" not in block.frame:
            continue
        near = block.integers("near_concept")
        known = bool((near >= 0).any())
        empty = (
            "no retain test target is a neighbour of the concept" if known else "the concept's neighbours are not known"
        )
        ranks = block.integers("rank")[near == 1]
        out += [
            user_mean(metric.name, Group.NEAR, metric.of(ranks), beam=block.beam, empty=empty)
            for metric in RANK_METRICS
        ]
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
        found = value.model_copy(update={"metric": f"collateral-change.{rest}", "value": change, "sd": None})
        interval = None if change is None else mean_interval(differences.get((rest, value.beam, value.group), _NOTHING))
        note = None if change is not None else "not measured here or on the original"
        out.append(found.model_copy(update={"interval": interval, "note": note}))
    for (rest, beam), by_side in changes.items():
        near, far = by_side.get(Group.NEIGHBOURS), by_side.get(Group.REST)
        excess = None if near is None or far is None else near - far
        note = None if excess is not None else "one side was not measured"
        name = f"collateral-excess.{rest}"
        sides = [differences.get((rest, beam, side), _NOTHING) for side in _SIDES]
        interval = None if excess is None else difference_interval(*sides)
        out.append(MetricValue(metric=name, group=Group.RETAIN, value=excess, beam=beam, interval=interval, note=note))
    return tuple(out)


def _differences(own: pd.DataFrame, original: pd.DataFrame) -> dict[tuple[str, int | None, Group], FloatArray]:
    """By relation and metric (``prefix.hr@10``), beam and side: the run's score of each example minus the original's.

    Nothing for a block whose examples are not the same in both tables.
    """
    found: dict[tuple[str, int | None, Group], FloatArray] = {}
    for one, other in zip(blocks(own), blocks(original), strict=True):
        if one.group is not Group.RETAIN or any(
            not np.array_equal(one.integers(column), other.integers(column)) for column in ("example", "target")
        ):
            continue
        for relation in _RELATIONS:
            near = one.integers(f"near_{relation}")
            for name in _METRICS:
                score = rank_metric(name).of
                moved = score(one.integers("rank")) - score(other.integers("rank"))
                for side, wanted in zip(_SIDES, (1, 0), strict=True):
                    found[f"{relation}.{name}", one.beam, side] = moved[near == wanted]
    return found


def _why_empty(relation: str, known: bool, side: Group) -> str:
    if not known:
        lacking = "original semantic IDs" if relation == "prefix" else "item categories"
        return f"no retain test example could be judged: no {lacking}, or the request names no concept items"
    return "every judged target is a neighbour" if side is Group.REST else "no judged target is a neighbour"


def collapse_values(beam: int, counts: IntArray) -> Iterator[MetricValue]:
    """Both metrics at one beam, from the counts of ``recommended``."""
    numbers = ((counts > 0).mean(), gini(counts)) if counts.sum() else None
    for place, name in enumerate(("coverage@10", "gini@10")):
        yield MetricValue(
            metric=name,
            group=Group.RETAIN,
            value=None if numbers is None else float(numbers[place]),
            beam=beam,
            n=len(counts),
            note="no item that may stay is recommended" if numbers is None else None,
        )


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
