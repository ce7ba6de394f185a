"""The core measurements as a whole: empty groups, empty catalogue corners, a real TIGER, and blocks of examples."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from genrec_unlearn_bench.data.examples import Examples, Histories
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import recompute

from .planted import PlantedRanker, PlantedRecommender, context, evaluated, examples, lists, split, table
from .test_per_user import setting

SIZE = 60


def fixed(histories, k, beam):  # type: ignore[no-untyped-def]
    return lists([list(range(SIZE))] * len(histories), k)


@pytest.mark.parametrize("side", ["forget", "retain", "both"])
@pytest.mark.parametrize("kind", ["concept", "interaction"])
def test_empty_groups_give_none_with_a_note(side: str, kind: str) -> None:
    full, empty = examples([[1, 30], [31]], [40, 41]), examples([], [])
    forget = empty if side in ("forget", "both") else full
    retain = empty if side in ("retain", "both") else full
    where = {"concept": range(5)} if kind == "concept" else {"pairs": [(0, 1)]}
    task = split(SIZE, forget, retain, **where)  # type: ignore[arg-type]
    for ranker in (PlantedRanker(fixed), PlantedRecommender(fixed, table([[0, 0, 0]] * SIZE))):
        result = evaluated(context(ranker, task, original=table([[0, 0, 0]] * SIZE)))
        assert check_invariants(result.values) == []
        for value in result.values:
            assert value.value is None or math.isfinite(value.value)
            assert value.value is not None or value.note
        gone = {Group.FORGET: side in ("forget", "both"), Group.RETAIN: side in ("retain", "both")}
        hits = {v.group: v for v in result.values if v.metric == "hr@10" and v.beam == 10}
        for group, is_empty in gone.items():
            assert (hits[group].value is None) == is_empty
            assert hits[group].n == (0 if is_empty else 2)


def test_a_recommender_that_finds_nothing() -> None:
    task = split(SIZE, examples([[1]], [0]), examples([[]], [30]), concept=[0])
    ranker = PlantedRecommender(lambda histories, k, beam: lists([[]] * len(histories), k), table([[0]] * SIZE))
    result = evaluated(context(ranker, task))
    assert check_invariants(result.values) == []
    values = {(v.metric, v.group, v.beam): v for v in result.values}
    assert values["hr@10", Group.FORGET, 10].value == 0.0
    assert values["concept-rate@10", Group.FORGET, 10].value is None
    assert values["similarity.first", Group.RETAIN, 10].value is None


def test_each_history_is_decoded_as_often_as_it_must_be() -> None:
    # 2 groups x 2 beams, and 2 drops for the one retain user whose history has a concept item.
    task = split(SIZE, examples([[30, 31]], [0]), examples([[1, 32, 33], [34]], [40, 41]), concept=range(5))
    original = table([[0, 0, 0]] * SIZE)
    ranker = PlantedRecommender(fixed, original)
    evaluated(context(ranker, task, original=original))
    assert sorted((len(h), beam) for h, _, beam, _ in ranker.calls) == [
        (1, 10),
        (1, 50),
        (1, 50),
        (1, 50),
        (2, 10),
        (2, 50),
    ]
    assert np.sum([sids is not None for *_, sids in ranker.calls]) == 0


def test_on_tiger_with_moved_sids_and_a_served_filter() -> None:
    from genrec_unlearn_bench.backbones.config import T5Shape
    from genrec_unlearn_bench.backbones.recommender import ServingRules
    from genrec_unlearn_bench.backbones.t5 import T5Recommender

    generator = np.random.default_rng(0)
    size, rows = 40, 30
    original = table(generator.integers(0, 6, size=(size, 2)).tolist(), size=6)
    shape = T5Shape(d_model=32, d_kv=8, d_ff=32, layers=1, heads=2, history_limit=4)
    base = T5Recommender.fresh(shape, original, seed=0, device="cpu")
    moved = base.with_sids(original.reassigned(np.arange(5), (original.codes[:5] + 1) % 6))

    def draw(low: int, high: int) -> Examples:
        histories = [generator.integers(0, size, size=generator.integers(0, 7)).tolist() for _ in range(rows)]
        return examples(histories, generator.integers(low, high, size=rows).tolist())

    task = split(size, draw(0, 5), draw(5, size), concept=range(5))
    result = evaluated(context(moved, task, original=original))
    assert check_invariants(result.values) == []
    wide = result.per_user[result.per_user["beam"] == 50]
    for group, part in (("forget", task.test.forget), ("retain", task.test.retain)):
        block = wide[wide["group"] == group]
        # The beam covers the catalogue, so that the search is exhaustive: the whole ranking is known.
        whole = moved.recommend(part.histories(), 50, exact=True)
        assert block["rank"].tolist() == whole.ranks(part.targets).tolist()
        assert (block["rank"] > 0).all()
    old = moved.recommend(task.test.forget.histories(), 50, exact=True, sids=original)
    leaked = wide.loc[wide["group"] == "forget", "original_rank"]
    assert leaked.tolist() == old.ranks(task.test.forget.targets).tolist()
    assert leaked.tolist() != wide.loc[wide["group"] == "forget", "rank"].tolist()
    values = {(v.metric, v.group, v.beam): v.value for v in result.values}
    assert values["history.js", Group.RETAIN, 50]

    served = moved.with_serving(ServingRules(ignored=task.items))
    filtered = evaluated(context(served, task, original=original))
    values = {(v.metric, v.group, v.beam): v.value for v in filtered.values}
    assert values["history.js", Group.RETAIN, 50] == 0.0
    assert values["history.js-matched", Group.RETAIN, 50]


def test_each_beam_is_scored_on_its_own_lists() -> None:
    # The narrow search finds the target at rank 10, the wide one at rank 1; concept items alike.
    def answer(histories: Histories, k: int, beam: int) -> Ranking:
        row = [50, *range(20, 29), 0] if beam == 50 else [*range(20, 29), 50]
        return lists([row] * len(histories), k)

    task = split(SIZE, examples([[30]], [50]), examples([[31]], [50]), concept=[50])
    ranker = PlantedRecommender(answer, table([[0]] * SIZE))
    values = {(v.metric, v.group, v.beam): v.value for v in evaluated(context(ranker, task)).values}
    for group in (Group.FORGET, Group.RETAIN):
        assert values["mrr@10", group, 50] == 1.0
        assert values["mrr@10", group, 10] == 0.1
        assert values["similarity.first", group, 50] == pytest.approx(1.0)
        assert values["similarity.first", group, 10] != pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 37, 149])
def test_blocks_change_nothing_but_the_random_draws(block: int) -> None:
    whole, found = evaluated(setting()), evaluated(setting(), block=block)
    drawn = ["js_matched", "change_matched"]
    assert list(recompute(found.per_user)) == list(found.values[: len(recompute(found.per_user))])
    ordered, expected = (
        one.per_user.sort_values(["group", "beam", "example"], ignore_index=True).drop(columns=drawn)
        for one in (found, whole)
    )
    pd.testing.assert_frame_equal(ordered, expected, check_exact=True)
    assert found.lists.keys() == whole.lists.keys()
    for place, ranking in found.lists.items():
        assert np.array_equal(ranking.items, whole.lists[place].items)
        assert np.array_equal(ranking.log_probs, whole.lists[place].log_probs)
    kept, wanted = (
        [v for v in one.values if "matched" not in v.metric and "excess" not in v.metric] for one in (found, whole)
    )
    assert kept == wanted
