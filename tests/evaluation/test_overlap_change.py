"""Overlap values of a run: by hand on a planted table, and their change after a reassignment."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.collateral import overlap_values
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.sids.table import SidTable

from .planted import PlantedRanker, PlantedRecommender, context, examples, lists, split

CODES = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [1, 1, 1], [1, 0, 2]])
ORIGINAL = SidTable(np.concatenate([CODES, np.zeros((6, 1), dtype=np.int64)], axis=1), (4, 4, 4, 2), 3)


def measured(sids: SidTable, original: SidTable | None, concept: list[int]) -> dict[str, MetricValue]:
    ranker = PlantedRecommender(lambda histories, k, beam: lists([], k), sids)
    values = overlap_values(
        context(ranker, split(6, examples([], []), examples([], []), concept=concept), original=original)
    )
    assert check_invariants(values) == []
    return {v.metric: v for v in values}


def test_by_hand() -> None:
    values = measured(ORIGINAL, ORIGINAL, [0, 1])
    # Retain items 2..5: first codes 0 0 1 1, second 0 1 1 0, third 2 0 1 2; concept: 0 0, 0 0, 0 1.
    assert values["overlap.level1"].value == pytest.approx(4 / 8)
    assert values["overlap.level2"].value == pytest.approx(4 / 8)
    assert values["overlap.level3"].value == pytest.approx(2 / 8)
    assert values["overlap.mean"].value == pytest.approx((4 + 4 + 2) / 24)
    assert "overlap.level4" not in values
    assert values["overlap.shared-prefix"].value == 1.0
    assert values["overlap.covered-codes"].value == 1.0
    assert values["overlap-change.mean"].value == 0.0
    assert values["overlap.mean"].n == 2
    lift, low, high = (values[f"overlap.{name}"].value for name in ("lift", "lift.null-low", "lift.null-high"))
    assert lift is not None
    assert low is not None
    assert high is not None
    assert low <= 1 <= high


def test_moving_the_concept_away_shows() -> None:
    away = ORIGINAL.reassigned(np.array([0, 1]), np.array([[3, 3, 3, 0], [3, 3, 3, 1]]))
    values = measured(away, ORIGINAL, [0, 1])
    assert values["overlap.mean"].value == 0.0
    assert values["overlap.lift"].value == 0.0
    assert values["overlap.shared-prefix"].value == 0.0
    assert values["overlap-change.mean"].value == pytest.approx(-10 / 24)
    assert values["overlap-change.shared-prefix"].value == -1.0
    unknown = measured(away, None, [0, 1])
    assert unknown["overlap-change.mean"].value is None


@pytest.mark.parametrize("concept", [[], [0, 1, 2, 3, 4, 5]])
def test_one_side_alone(concept: list[int]) -> None:
    values = measured(ORIGINAL, ORIGINAL, concept)
    assert all(v.value is None and v.note for v in values.values())


def test_a_ranker_without_sids() -> None:
    ranker = PlantedRanker(lambda histories, k, beam: lists([], k))
    values = overlap_values(context(ranker, split(6, examples([], []), examples([], []), concept=[0])))
    assert all(v.value is None for v in values)
    assert check_invariants(values) == []
