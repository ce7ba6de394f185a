"""Across blocks: nothing below the protocol's number, Friedman from there, and gaps never filled."""

from __future__ import annotations

import pytest
from scipy import stats

from genrec_unlearn_bench.reporting.across import Across, across
from genrec_unlearn_bench.reporting.analysis import analyse
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import Result
from tests.reporting.planting import FORGET, RETAIN, plant

SCORES = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}


def blocks(
    number: int, *, without: tuple[str, int] | None = None, swap: bool = False, **changes: object
) -> list[Result]:
    """Four methods on that many tasks, a best everywhere; with ``swap`` a and d change places in every other task."""
    out: list[Result] = []
    for task in range(number):
        for method, value in SCORES.items():
            if (method, task) == without:
                continue
            shown = SCORES["d" if method == "a" else "a" if method == "d" else method] if swap and task % 2 else value
            numbers = {"forget:hr@10": [shown, shown + 0.01], "retain:ndcg@10": [0.1, 0.1]}
            out += plant(method, numbers, task=f"t{task}-brand", **changes)
    return out


def found(results: list[Result]) -> dict[object, Across]:
    protocol = statistics_protocol(1)
    analysis = analyse(make_board(results, protocol), protocol, measures=(FORGET, RETAIN))
    return {each.measure: each for each in across(analysis)}


@pytest.mark.parametrize("number", [1, 9])
def test_too_few_blocks_get_a_sentence_and_no_test(number: int) -> None:
    each = found(blocks(number))[FORGET]
    assert each.found is None
    assert each.standings == ()
    assert each.diagram("svg") is None
    assert f"{number} block" in each.sentence
    assert "from 10 up" in each.sentence


def test_friedman_is_scipys_on_means_turned_so_that_the_best_is_first() -> None:
    each = found(blocks(10))[FORGET]
    assert each.found is not None
    columns = [[SCORES[name]] * 10 for name in "abcd"]
    ranks = [[float(place + 1)] * 10 for place in range(4)]
    expected = stats.friedmanchisquare(*[[value + 1e-6 * i for i, value in enumerate(row)] for row in ranks])
    assert len(columns) == 4
    assert each.found.statistic == pytest.approx(expected.statistic)
    assert [(place.label, place.mean_rank) for place in each.standings] == [
        ("a", 1.0),
        ("b", 2.0),
        ("c", 3.0),
        ("d", 4.0),
    ]
    assert "the methods differ" in each.sentence


def test_letters_join_what_is_not_separable() -> None:
    letters = {place.label: set(place.letters) for place in found(blocks(10))[FORGET].standings}
    assert not letters["a"] & letters["d"]
    assert letters["b"] & letters["c"]


def test_methods_that_cancel_out_are_not_told_apart() -> None:
    each = found(blocks(10, swap=True))[FORGET]
    ranks = {place.label: place.mean_rank for place in each.standings}
    assert ranks["a"] == ranks["d"] == 2.5


def test_ties_throughout_are_no_evidence() -> None:
    each = found(blocks(10))[RETAIN]
    assert each.found is not None
    assert each.found.p == 1.0
    assert "no difference" in each.sentence


def test_a_method_that_lacks_a_block_is_left_out_and_said() -> None:
    each = found(blocks(10, without=("d", 3)))[FORGET]
    assert [place.label for place in each.standings] == ["a", "b", "c"]
    assert each.notes == ("Not measured in every block and left out: d.",)


def test_two_complete_methods_are_too_few() -> None:
    results = [result for result in blocks(10) if result.method in "ab"]
    assert "ranks need three" in found(results)[FORGET].sentence


def test_references_take_no_part() -> None:
    results = blocks(10)
    for task in range(10):
        results += plant(
            "popularity", {"forget:hr@10": [0.0, 0.0], "retain:ndcg@10": [0.0, 0.0]}, task=f"t{task}-brand"
        )
    assert "popularity" not in [place.label for place in found(results)[FORGET].standings]


def test_several_setups_of_one_task_count_once() -> None:
    results = blocks(9) + plant(
        "a", {"forget:hr@10": [0.1, 0.1], "retain:ndcg@10": [0.1, 0.1]}, task="t0-brand", encoder="other#1"
    )
    assert "9 blocks" in found(results)[FORGET].sentence


def test_rulesets_and_scales_are_never_pooled() -> None:
    results = blocks(10) + blocks(3, scale="paper")
    protocol = statistics_protocol(1)
    analysis = analyse(make_board(results, protocol), protocol, measures=(FORGET,))
    assert [(each.scale, each.blocks) for each in across(analysis) if each.measure == FORGET] == [
        ("small", 10),
        ("paper", 3),
    ]


def test_the_diagram_is_the_same_every_time_and_holds_the_names() -> None:
    pytest.importorskip("matplotlib")
    one, two = (found(blocks(10))[FORGET].diagram("svg") for _ in range(2))
    assert one is not None
    assert one == two
    svg = one.decode()
    assert all(f">{name} (" in svg or f") {name}<" in svg for name in "abcd")
