"""Collateral damage and collapse: by hand, and rankers that are worse beside the concept or recommend few items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.collateral import (
    category_neighbours,
    change_from_original,
    gini,
    prefix_depth,
    prefix_neighbours,
    recommended,
)
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS

from .planted import Answer, Evaluated, PlantedRanker, context, evaluated, examples, item_table, lists, split, table

SIZE = 64
CODES = [[item // 16, item // 4 % 4, item % 4] for item in range(SIZE)]
"""Items of one block of four share two codes, of one block of sixteen one code."""


def test_prefix_depth() -> None:
    assert [prefix_depth(table([[0] * levels])) for levels in (1, 2, 3, 4)] == [1, 1, 2, 2]


def test_prefix_neighbours() -> None:
    concept = np.zeros(SIZE, dtype=np.bool_)
    concept[[0, 21]] = True
    assert np.flatnonzero(prefix_neighbours(table(CODES), concept)).tolist() == [0, 1, 2, 3, 20, 21, 22, 23]
    short = table([row[:2] for row in CODES])
    assert np.flatnonzero(prefix_neighbours(short, concept)).tolist() == list(range(32))


def test_category_neighbours() -> None:
    paths = [("a", "b"), ("a", "b"), ("a", "c"), (), ("a",)]
    concept = np.array([True, False, False, False, False])
    assert category_neighbours(item_table(5, paths), concept).tolist() == [1, 1, 0, -1, 0]
    # A concept item without categories makes nobody a neighbour.
    concept = np.array([False, False, False, True, False])
    assert category_neighbours(item_table(5, paths), concept).tolist() == [0, 0, 0, -1, 0]


def run(near_rank: int, far_rank: int, *, categories: list[tuple[str, ...]] | None = None) -> tuple[MetricValue, ...]:
    """Two ranks: of targets 1, 2, 3, which are neighbours of the concept item 0 by prefix, and of all others."""
    ranks = np.where(np.arange(SIZE) < 4, near_rank, far_rank)
    return measured(ranks, categories=categories).values


def measured(
    ranks: np.ndarray,
    *,
    categories: list[tuple[str, ...]] | None = None,
    near: np.ndarray | None = None,
    codes: list[list[int]] = CODES,
) -> Evaluated:
    """Retain targets 1..39, each found at its rank in ``ranks`` [SIZE]."""
    targets = list(range(1, 40))

    def answer(histories, k, beam):  # type: ignore[no-untyped-def]
        rows = []
        for target in histories.items[:, 0].tolist():
            row = [item for item in range(SIZE) if item != target]
            row.insert(int(ranks[target]) - 1, target)
            rows.append(row)
        return lists(rows, k)

    task = split(SIZE, examples([[0]], [0]), examples([[target] for target in targets], targets), concept=[0])
    task = replace(task, near=near)
    setting = context(PlantedRanker(answer), task, original=table(codes), items=item_table(SIZE, categories))
    return evaluated(setting)


def pick(values: tuple[MetricValue, ...], metric: str, group: Group, beam: int = 10) -> MetricValue:
    return next(v for v in values if (v.metric, v.group, v.beam) == (metric, group, beam))


def test_planted_difference() -> None:
    values = run(near_rank=3, far_rank=1)
    near = pick(values, "collateral.prefix.ndcg@10", Group.NEIGHBOURS)
    rest = pick(values, "collateral.prefix.ndcg@10", Group.REST)
    assert (near.value, near.n) == (0.5, 3)
    assert (rest.value, rest.n) == (1.0, 36)
    assert pick(values, "collateral.prefix.hr@10", Group.NEIGHBOURS).value == 1.0
    # No categories in this catalogue: said so, not zero.
    silent = pick(values, "collateral.category.ndcg@10", Group.NEIGHBOURS)
    assert silent.value is None
    assert silent.note is not None
    assert "is known to be on this side" in silent.note


def test_by_category() -> None:
    categories = [("toys", "near") if item < 10 else ("toys", "far") for item in range(SIZE)]
    values = run(near_rank=3, far_rank=1, categories=categories)
    near = pick(values, "collateral.category.ndcg@10", Group.NEIGHBOURS)
    assert near.n == 9
    assert near.value == pytest.approx((3 * 0.5 + 6) / 9)
    assert pick(values, "collateral.category.ndcg@10", Group.REST).value == 1.0


def test_retain_near_is_the_mean_over_the_tasks_rows_whatever_the_ids() -> None:
    generator = np.random.default_rng(3)
    ranks, near = generator.integers(1, 15, SIZE), generator.random(SIZE) < 0.3
    found = measured(ranks, near=near)
    other_ids = measured(ranks, near=near, codes=[row[::-1] for row in CODES])
    targets = [target for target in range(1, 40) if near[target]]
    for beam in (10, 50):
        for name, score in RANK_METRICS.items():
            value = pick(found.values, name, Group.NEAR, beam)
            assert value.n == len(targets)
            assert value.value == pytest.approx(float(score(ranks[targets]).mean()))
            assert value == pick(other_ids.values, name, Group.NEAR, beam)
    prefix = [pick(one.values, "collateral.prefix.hr@10", Group.NEIGHBOURS).n for one in (found, other_ids)]
    assert prefix[0] != prefix[1]
    assert check_invariants(found.values) == []


def test_retain_near_says_why_it_is_not_there() -> None:
    ranks = np.ones(SIZE, dtype=np.int64)
    unknown = pick(measured(ranks).values, "ndcg@10", Group.NEAR)
    assert (unknown.value, unknown.note) == (None, "the concept's neighbours are not known")
    nobody = pick(measured(ranks, near=np.zeros(SIZE, dtype=np.bool_)).values, "ndcg@10", Group.NEAR)
    assert (nobody.value, nobody.note) == (None, "no retain test target is a neighbour of the concept")


def test_change_from_the_original() -> None:
    before, after = run(near_rank=1, far_rank=1), run(near_rank=20, far_rank=3)
    changes = change_from_original(after, before)
    assert pick(changes, "collateral-change.prefix.ndcg@10", Group.NEIGHBOURS).value == pytest.approx(-1.0)
    assert pick(changes, "collateral-change.prefix.ndcg@10", Group.REST).value == pytest.approx(-0.5)
    assert pick(changes, "collateral-excess.prefix.ndcg@10", Group.RETAIN).value == pytest.approx(-0.5)
    assert pick(changes, "collateral-excess.category.hr@10", Group.RETAIN).value is None
    unchanged = change_from_original(before, before)
    assert {v.value for v in unchanged} <= {0.0, None}


def test_intervals_are_those_of_scipy() -> None:
    """Ranks at random, so that every side has a spread; paired differences by side, Welch's between the sides."""
    before, after = (measured(ranks=np.random.default_rng(seed).integers(1, 15, SIZE)) for seed in (0, 1))
    side = pick(after.values, "collateral.prefix.ndcg@10", Group.REST)
    tables = [frame[(frame.group == "retain") & (frame.beam == 10)] for frame in (after.per_user, before.per_user)]
    own, earlier = (RANK_METRICS["ndcg@10"](frame["rank"].to_numpy()) for frame in tables)
    near = tables[0].near_prefix.to_numpy()
    peer = stats.ttest_1samp(own[near == 0], 0).confidence_interval(0.95)
    assert side.interval == pytest.approx((peer.low, peer.high), abs=1e-12)
    changes = change_from_original(after.values, before.values, tables=(after.per_user, before.per_user))
    for group, wanted in ((Group.NEIGHBOURS, 1), (Group.REST, 0)):
        moved = (own - earlier)[near == wanted]
        peer = stats.ttest_1samp(moved, 0).confidence_interval(0.95)
        change = pick(changes, "collateral-change.prefix.ndcg@10", group)
        assert change.value == pytest.approx(moved.mean())
        assert change.interval == pytest.approx((peer.low, peer.high), abs=1e-12)
    welch = stats.ttest_ind((own - earlier)[near == 1], (own - earlier)[near == 0], equal_var=False)
    peer = welch.confidence_interval(0.95)
    excess = pick(changes, "collateral-excess.prefix.ndcg@10", Group.RETAIN)
    assert excess.interval == pytest.approx((peer.low, peer.high), abs=1e-12)
    plain = change_from_original(after.values, before.values)
    assert [value.value for value in plain] == [value.value for value in changes]
    assert all(value.interval is None for value in plain)
    assert check_invariants(changes) == []
    # Tables of other examples are not paired.
    shuffled = before.per_user.assign(target=before.per_user["target"].to_numpy()[::-1])
    unpaired = change_from_original(after.values, before.values, tables=(after.per_user, shuffled))
    assert all(value.interval is None for value in unpaired)


def test_a_side_without_targets_has_no_value() -> None:
    everywhere = run(near_rank=1, far_rank=1, categories=[("one",)] * SIZE)
    assert pick(everywhere, "collateral.category.hr@10", Group.REST).value is None
    apart = run(near_rank=1, far_rank=1, categories=[("alone",)] + [("others",)] * (SIZE - 1))
    assert pick(apart, "collateral.category.hr@10", Group.NEIGHBOURS).value is None


ITEMS = 60
COLLAPSE = {"coverage@10", "gini@10"}


def collapse_values(answer: Answer, *, concept: list[int], rows: int = 40) -> dict[str, MetricValue]:
    part = examples([[row % ITEMS] for row in range(rows)], [59] * rows)
    task = split(ITEMS, examples([[0]], [0]), part, concept=concept)
    values = [value for value in evaluated(context(PlantedRanker(answer), task)).values if value.metric in COLLAPSE]
    assert check_invariants(values) == []
    assert {(value.group, value.beam) for value in values} == {(Group.RETAIN, 10), (Group.RETAIN, 50)}
    return {value.metric: value for value in values if value.beam == 10}


def test_coverage_and_gini_by_hand() -> None:
    items = np.array([[0, 1, 2], [0, 1, -1], [0, 3, -1]])
    concept = np.zeros(5, dtype=np.bool_)
    assert recommended(items, concept).tolist() == [3, 2, 1, 1, 0]
    # Ten pairs differ by 1 2 2 3 / 1 1 2 / 0 1 / 1 = 14; over n^2 * mean = 25 * 1.4.
    assert gini(np.array([3, 2, 1, 1, 0])) == pytest.approx(14 / 35)
    concept[0] = True
    assert recommended(items, concept).tolist() == [2, 1, 1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_gini_is_the_mean_absolute_difference(seed: int) -> None:
    counts = np.random.default_rng(seed).poisson(1.5, 80)
    wanted = np.abs(counts[:, None] - counts[None]).mean() / (2 * counts.mean())
    assert gini(counts) == pytest.approx(wanted)
    assert gini(np.full(7, 3)) == 0.0
    assert gini(np.r_[np.zeros(99, dtype=np.int64), 5]) == pytest.approx(0.99)


def test_a_collapsed_model_and_one_that_is_not() -> None:
    def same(histories: Histories, k: int, beam: int) -> Ranking:
        return lists([list(range(k))] * len(histories), k)

    def spread(histories: Histories, k: int, beam: int) -> Ranking:
        return lists([[(int(item) + place) % ITEMS for place in range(k)] for item in histories.items[:, 0]], k)

    collapsed, healthy = (collapse_values(answer, concept=[], rows=ITEMS) for answer in (same, spread))
    assert collapsed["coverage@10"].value == pytest.approx(10 / ITEMS)
    assert collapsed["gini@10"].value == pytest.approx(1 - 10 / ITEMS)
    assert healthy["coverage@10"].value == 1.0
    assert healthy["gini@10"].value == pytest.approx(0.0)


def test_forgetting_the_concept_costs_nothing() -> None:
    kept = list(range(10, ITEMS))

    def some(histories: Histories, k: int, beam: int) -> Ranking:
        return lists([[kept[(int(item) + place) % 50] for place in range(k)] for item in histories.items[:, 0]], k)

    values = collapse_values(some, concept=list(range(10)), rows=50)
    assert (values["coverage@10"].value, values["coverage@10"].n) == (1.0, 50)


def test_nothing_is_recommended() -> None:
    values = collapse_values(lambda histories, k, beam: lists([[0]] * len(histories), k), concept=[0])
    assert {value.note for value in values.values()} == {"no item that may stay is recommended"}
