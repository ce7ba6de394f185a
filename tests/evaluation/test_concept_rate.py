"""Concept rate, and leakage through the original SIDs."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.sids.table import SidTable

from .planted import Answer, PlantedRanker, PlantedRecommender, context, evaluated, examples, lists, split, table

SIZE = 60
CONCEPT = range(12)


def planted_task(rows: int = 40):  # type: ignore[no-untyped-def]
    forget = examples([[30]] * rows, [row % 12 for row in range(rows)])
    retain = examples([[30]] * rows, [12 + row % 48 for row in range(rows)])
    return split(SIZE, forget, retain, concept=CONCEPT)


def values_of(ranker, task, original: SidTable | None = None):  # type: ignore[no-untyped-def]
    result = evaluated(context(ranker, task, original=original))
    return {(v.metric, v.group, v.beam): v for v in result.values}


def test_random_lists_have_the_concepts_share() -> None:
    generator = np.random.default_rng(0)
    ranker = PlantedRanker(
        lambda histories, k, beam: lists([generator.permutation(SIZE).tolist() for _ in range(len(histories))], k)
    )
    values = values_of(ranker, planted_task(2000))
    for group in (Group.FORGET, Group.RETAIN):
        value = values["concept-rate@10", group, 10]
        assert value.value == pytest.approx(12 / SIZE, abs=0.01)
        assert value.n == 2000


def test_only_the_first_ten_places_count_and_empty_places_do_not() -> None:
    answers = iter([[[0, 1, *range(20, 28), 2, 3, 4]], [[0, 40, 41]]])
    ranker = PlantedRanker(lambda histories, k, beam: lists(next(answers), k))
    values = values_of(ranker, split(SIZE, examples([[30]], [0]), examples([[30]], [50]), concept=CONCEPT))
    assert values["concept-rate@10", Group.FORGET, 50].value == pytest.approx(0.2)
    assert values["concept-rate@10", Group.RETAIN, 50].value == pytest.approx(1 / 3)


def test_interaction_requests_count_the_users_own_items() -> None:
    ranker = PlantedRanker(lambda histories, k, beam: lists([[0, 1, 2, 3]] * len(histories), k))
    task = split(
        SIZE,
        examples([[30], [30]], [0, 1], users=[4, 5]),
        examples([[30]], [9], users=[6]),
        pairs=[(4, 0), (5, 1), (5, 2)],
    )
    values = values_of(ranker, task)
    assert values["concept-rate@10", Group.FORGET, 10].value == pytest.approx((1 / 4 + 2 / 4) / 2)
    assert values["concept-rate@10", Group.RETAIN, 10].value == 0.0


def clean(histories, k, beam):  # type: ignore[no-untyped-def]
    return lists([list(range(12, SIZE))] * len(histories), k)


def leaky(histories, k, beam):  # type: ignore[no-untyped-def]
    return lists([list(range(SIZE))] * len(histories), k)


def leak(ranker: PlantedRecommender, original: SidTable | None) -> tuple[MetricValue, MetricValue]:
    values = values_of(ranker, planted_task(), original)
    return (values["original-sids.hr@10", Group.FORGET, 50], values["original-sids.concept-rate@10", Group.FORGET, 50])


def recommender(sids: SidTable, answer: Answer = clean) -> PlantedRecommender:
    return PlantedRecommender(answer, sids, in_space=leaky)


def test_leakage_is_decoded_in_the_original_space_where_sids_have_moved() -> None:
    original = table([[item % 4, item // 16] for item in range(SIZE)])
    moved = original.reassigned(np.arange(12), (original.codes[:12] + 1) % 4)
    ranker = recommender(moved)
    hits, rate = leak(ranker, original)
    # The served lists hold no concept item at all; in the old space everything is still there.
    assert hits.value == pytest.approx(np.mean([row % 12 < 10 for row in range(40)]))
    assert rate.value == 1.0
    asked = [(len(h), beam) for h, _, beam, sids in ranker.calls if sids is not None]
    assert asked == [(40, 50)]
    assert all(sids is original for *_, sids in ranker.calls if sids is not None)


def test_leakage_equals_the_plain_metric_where_nothing_has_moved() -> None:
    original = table([[item % 4, item // 16] for item in range(SIZE)])
    ranker = recommender(original, answer=leaky)
    values = values_of(ranker, planted_task(), original)
    assert values["original-sids.hr@10", Group.FORGET, 50].value == values["hr@10", Group.FORGET, 50].value
    assert all(sids is None for *_, sids in ranker.calls)


@pytest.mark.parametrize("case", ["no table", "another tokenizer", "other level sizes"])
def test_leakage_is_not_asked_where_it_means_nothing(case: str) -> None:
    codes = [[item % 4, item // 16] for item in range(SIZE)]
    original = table(codes)
    others = {
        "no table": (original, None),
        "another tokenizer": (table([[3 - a, b] for a, b in codes]), original),
        "other level sizes": (table([[3 - a, b] for a, b in codes], size=5, version=1), original),
    }
    sids, before = others[case]
    ranker = recommender(sids)
    for value in leak(ranker, before):
        assert value.value is None
        assert value.note
    assert all(sids is None for *_, sids in ranker.calls)
