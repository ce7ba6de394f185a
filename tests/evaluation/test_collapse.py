"""Coverage and Gini: by hand, against the definition, and on rankers that collapse."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.collapse import SPECS, gini, recommended
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue

from .planted import Answer, PlantedRanker, context, evaluated, examples, lists, split

SIZE = 60
NAMES = {spec.name for spec in SPECS}


def measured(answer: Answer, *, concept: list[int], rows: int = 40) -> dict[str, MetricValue]:
    part = examples([[row % SIZE] for row in range(rows)], [59] * rows)
    task = split(SIZE, examples([[0]], [0]), part, concept=concept)
    values = [value for value in evaluated(context(PlantedRanker(answer), task)).values if value.metric in NAMES]
    assert check_invariants(values) == []
    assert {(value.group, value.beam) for value in values} == {(Group.RETAIN, 10), (Group.RETAIN, 50)}
    return {value.metric: value for value in values if value.beam == 10}


def test_by_hand() -> None:
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
        return lists([[(int(item) + place) % SIZE for place in range(k)] for item in histories.items[:, 0]], k)

    collapsed, healthy = (measured(answer, concept=[], rows=SIZE) for answer in (same, spread))
    assert collapsed["coverage@10"].value == pytest.approx(10 / SIZE)
    assert collapsed["gini@10"].value == pytest.approx(1 - 10 / SIZE)
    assert healthy["coverage@10"].value == 1.0
    assert healthy["gini@10"].value == pytest.approx(0.0)


def test_forgetting_the_concept_costs_nothing() -> None:
    kept = list(range(10, SIZE))

    def some(histories: Histories, k: int, beam: int) -> Ranking:
        return lists([[kept[(int(item) + place) % 50] for place in range(k)] for item in histories.items[:, 0]], k)

    values = measured(some, concept=list(range(10)), rows=50)
    assert (values["coverage@10"].value, values["coverage@10"].n) == (1.0, 50)


def test_nothing_is_recommended() -> None:
    values = measured(lambda histories, k, beam: lists([[0]] * len(histories), k), concept=[0])
    assert {value.note for value in values.values()} == {"no item that may stay is recommended"}
