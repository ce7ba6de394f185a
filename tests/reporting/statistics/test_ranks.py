"""Rank intervals, tie groups and best sets say what the relation says, transitive or not."""

from __future__ import annotations

import string
import time
from itertools import islice

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genrec_unlearn_bench.reporting.statistics.ranks import best_set, letters, rank_intervals, second_set, tie_groups


@st.composite
def relations(draw: st.DrawFn) -> np.ndarray:
    """Any symmetric relation of up to 12 methods."""
    size = draw(st.integers(1, 12))
    upper = np.triu(draw(arrays(np.bool_, (size, size))), 1)
    return upper | upper.T


def parsed(display: str, groups: int) -> set[str]:
    return set(display.split(",")) if groups > 26 else set(display)


def shares(displays: tuple[str, ...]) -> np.ndarray:
    """[M, M] whether two displays have a letter in common."""
    commas = any("," in display for display in displays) or any(len(set(d)) < len(d) for d in displays)
    sets = [parsed(display, 27 if commas else 1) for display in displays]
    return np.array([[bool(one & other) for other in sets] for one in sets])


def holds(separable: np.ndarray) -> tuple[str, ...]:
    displays = tie_groups(separable)
    tied = ~separable
    np.fill_diagonal(tied, True)
    assert np.array_equal(shares(displays), tied)
    return displays


@settings(max_examples=300, deadline=None)
@given(relations())
def test_two_methods_share_a_letter_if_and_only_if_they_are_not_separable(separable: np.ndarray) -> None:
    displays = holds(separable)
    used = sorted(set("".join(displays)))
    # Letters in use are the first ones, each for a group of its own, in the table's order.
    assert used == list(string.ascii_lowercase[: len(used)])
    members = [tuple(row for row, display in enumerate(displays) if letter in display) for letter in used]
    assert members == sorted(set(members))
    # No letter is idle: without it, some pair (or a method alone) would lose its last common letter.
    for letter in used:
        left = tuple(display.replace(letter, "") for display in displays)
        assert not np.array_equal(shares(left), shares(displays))


def test_the_textbook_case() -> None:
    separable = np.zeros((4, 4), dtype=bool)
    for first, second in [(0, 2), (0, 3), (1, 3)]:
        separable[first, second] = separable[second, first] = True
    assert tie_groups(separable) == ("a", "ab", "bc", "c")
    assert tie_groups(np.zeros((3, 3), dtype=bool)) == ("a", "a", "a")
    assert tie_groups(~np.eye(3, dtype=bool)) == ("a", "b", "c")
    assert tie_groups(np.zeros((0, 0), dtype=bool)) == ()


def test_a_relation_that_no_order_explains() -> None:
    """A ring of five: each ties with its neighbours alone, so five letters, two each."""
    step = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) % 5
    displays = holds((step != 0) & (step != 1) & (step != 4))
    assert sorted(map(len, displays)) == [2] * 5


def test_ties_along_an_order_need_as_few_letters_as_there_are_longest_runs() -> None:
    """Where methods tie with near ones only, the groups are the maximal runs, which is the least there is."""
    distance = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    displays = holds(distance > 3)
    assert displays == (
        "a",
        "ab",
        "abc",
        "abcd",
        *(string.ascii_lowercase[i - 3 : i + 1] for i in range(4, 9)),
        "ghi",
        "hi",
        "i",
    )


def test_forty_methods_and_more_than_26_groups() -> None:
    displays = holds(~np.eye(40, dtype=bool))
    assert displays == tuple(islice(letters(), 40))
    assert displays[25:28] == ("z", "aa", "ab")
    distance = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    chained = holds(distance > 1)
    assert chained[26] == "z,aa"
    for seed in range(3):
        upper = np.triu(np.random.default_rng(seed).random((40, 40)) < 0.5, 1)
        holds(upper | upper.T)


def test_what_makes_insert_and_absorb_explode_takes_no_time() -> None:
    """Thirteen trios, separable within and tied between: 3^13 maximal groups."""
    trio = np.arange(39) // 3
    separable = (trio[:, None] == trio[None, :]) & ~np.eye(39, dtype=bool)
    start = time.process_time()
    holds(separable)
    assert time.process_time() - start < 5.0


def test_letters_go_on() -> None:
    names = list(islice(letters(), 26 + 26 * 26 + 1))
    assert names[26] == "aa"
    assert names[26 + 26 * 26] == "aaa"
    assert len(set(names)) == len(names)


def test_rank_intervals() -> None:
    better = np.zeros((4, 4), dtype=bool)
    better[0, 2] = better[0, 3] = better[1, 3] = True
    assert rank_intervals(better).tolist() == [[1, 2], [1, 3], [2, 4], [3, 4]]
    assert rank_intervals(np.zeros((3, 3), dtype=bool)).tolist() == [[1, 3]] * 3
    assert rank_intervals(np.triu(np.ones((3, 3), dtype=bool), 1)).tolist() == [[1, 1], [2, 2], [3, 3]]


@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 9), elements=st.floats(-1, 1)), st.floats(0, 2))
def test_sets_and_intervals_agree_with_an_order_that_tests_can_see(means: np.ndarray, resolution: float) -> None:
    better = np.subtract.outer(means, means) > resolution
    best, second, ranks = best_set(means, better), second_set(means, better), rank_intervals(better)
    assert best[np.argmax(means)]
    assert not (best & second).any()
    assert second.any() == (not best.all())
    assert np.all(ranks[:, 0] <= ranks[:, 1])
    assert np.array_equal(best, ranks[:, 0] == 1)
    order = np.argsort(-means, kind="stable")
    assert np.all(np.diff(ranks[order, 0]) >= 0)


def test_ties_for_the_best_are_all_best_and_what_was_not_measured_is_nothing() -> None:
    nan = float("nan")
    better = np.zeros((4, 4), dtype=bool)
    better[0, 2] = True
    assert best_set([0.5, 0.5, 0.4, nan], better).tolist() == [True, True, False, False]
    assert second_set([0.5, 0.5, 0.4, nan], better).tolist() == [False, False, True, False]
    assert not best_set([nan, nan], np.zeros((2, 2), dtype=bool)).any()
    assert not second_set([0.1], np.zeros((1, 1), dtype=bool)).any()
