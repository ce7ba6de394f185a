"""The declared rule, on lists whose changes are known by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.examples.runs import TaskRuns, most_changed, of_users
from tests.evaluation.planted import lists


def planted(task_runs: TaskRuns, users: list[int], *runs: list[list[int]]) -> TaskRuns:
    """The runs with these lists for the first ``len(users)`` retain examples."""
    size, first = len(users), task_runs.first
    frame = first.per_user[(first.per_user["group"] == "retain") & (first.per_user["example"] < size)].copy()
    frame["user"] = np.tile(users, 2)
    made = tuple(
        (f"run {number}", replace(first, per_user=frame, rankings={(Group.RETAIN, 10): lists(run, 10)}))
        for number, run in enumerate(runs)
    )
    return replace(task_runs, runs=made)


SAME = list(range(10, 20))


def changed(many: int) -> list[int]:
    """A list that shares all but ``many`` items with ``SAME``."""
    return [*range(30, 30 + many), *SAME[many:]]


def test_the_most_changed_come_first(task_runs: TaskRuns) -> None:
    many = [3, 0, 10, 7, 1]
    found = planted(task_runs, [1, 2, 3, 4, 5], [SAME] * 5, [SAME] * 5, [changed(n) for n in many])
    assert most_changed(found, Group.RETAIN, 10, 3).tolist() == [2, 3, 0]
    assert most_changed(found, Group.RETAIN, 10, 99).tolist() == [2, 3, 0, 4, 1]


def test_the_oracle_does_not_choose_and_methods_are_averaged(task_runs: TaskRuns) -> None:
    oracle = [changed(10), changed(0), changed(0)]
    one, other = [changed(4), changed(6), changed(0)], [changed(4), changed(0), changed(9)]
    found = planted(task_runs, [1, 2, 3], [SAME] * 3, oracle, one, other)
    assert most_changed(found, Group.RETAIN, 10, 3).tolist() == [2, 0, 1]
    # Where nothing but the oracle stands beside the original, the change is the oracle's.
    assert most_changed(planted(task_runs, [1, 2, 3], [SAME] * 3, oracle), Group.RETAIN, 10, 1).tolist() == [0]


def test_ties_go_to_the_lower_row(task_runs: TaskRuns) -> None:
    after = [[*range(36, 39), *SAME[3:]]] * 4
    found = planted(task_runs, [1, 2, 3, 4], [SAME] * 4, [SAME] * 4, after)
    assert most_changed(found, Group.RETAIN, 10, 4).tolist() == [0, 1, 2, 3]


def test_a_user_is_shown_once(task_runs: TaskRuns) -> None:
    many = [3, 9, 5, 4]
    found = planted(task_runs, [8, 8, 8, 2], [SAME] * 4, [SAME] * 4, [changed(n) for n in many])
    assert most_changed(found, Group.RETAIN, 10, 4).tolist() == [1, 3]


def test_named_users_in_the_order_asked_for_with_all_their_examples(task_runs: TaskRuns) -> None:
    retain = task_runs.first.users(Group.RETAIN)
    forget = task_runs.first.users(Group.FORGET)
    both = next(int(user) for user in forget if user in retain)
    other = next(int(user) for user in retain if user not in forget)
    found = of_users(task_runs, [other, both, other], (Group.FORGET, Group.RETAIN))
    expected = [(Group.RETAIN, int(row)) for row in np.flatnonzero(retain == other)]
    expected += [(Group.FORGET, int(row)) for row in np.flatnonzero(forget == both)]
    expected += [(Group.RETAIN, int(row)) for row in np.flatnonzero(retain == both)]
    assert found == expected


def test_users_without_examples_are_all_named(task_runs: TaskRuns) -> None:
    known = int(task_runs.first.users(Group.RETAIN)[0])
    with pytest.raises(UsageError, match=r"no retain test example is of the user 777, -4") as fault:
        of_users(task_runs, [777, known, -4], (Group.RETAIN,))
    assert "per_user.parquet" in str(fault.value)


def test_an_empty_group_is_said(task_runs: TaskRuns) -> None:
    with pytest.raises(UsageError, match="there are no retain test examples"):
        most_changed(planted(task_runs, [], [], [], []), Group.RETAIN, 10, 3)
