"""Divisions: disjoint in items and users, balanced by level-1 code, and refused where that leaves too little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.probing.splits import ProbeSplit, Rows, rank_within, split_rows
from tests.evaluation.probing.worlds import world


def division(rows: Rows, seed: int = 0, minimum: int = 3) -> ProbeSplit:
    return split_rows(rows, np.random.default_rng(seed), train=0.5, validation=0.2, minimum=minimum)


def named(parts: ProbeSplit) -> tuple[np.ndarray, ...]:
    return parts.train, parts.validation, parts.test


@pytest.mark.parametrize("seed", range(4))
def test_parts_share_neither_items_nor_users(seed: int) -> None:
    rows = world(seed).rows
    parts = named(division(rows, seed))
    for one in range(3):
        for two in range(one):
            assert not np.intersect1d(rows.items[parts[one]], rows.items[parts[two]]).size
            assert not np.intersect1d(rows.users[parts[one]], rows.users[parts[two]]).size


def test_every_part_has_as_many_negatives_as_positives_of_each_code() -> None:
    rows = world().rows
    for part in named(division(rows)):
        own = rows.subset(part)
        assert len(own) > 20
        assert np.array_equal(np.sort(own.codes[own.labels]), np.sort(own.codes[~own.labels]))


def test_a_user_is_tested_once_in_each_class() -> None:
    rows = world().rows
    own = rows.subset(division(rows).test)
    assert len(np.unique(own.users * 2 + own.labels)) == len(own)


def test_no_share_of_the_items_is_lost_where_a_code_has_one_concept_item() -> None:
    # Dealt without regard to each other, a lone positive item would meet its code's negatives in its own part alone.
    items = np.repeat(np.arange(300), 4)
    rows = Rows(np.arange(1200), items % 6 == 0, items, np.arange(1200), items // 6)
    kept = sum(len(part) for part in named(division(rows)))
    assert kept >= 0.95 * 2 * rows.labels.sum()


def test_few_users_with_many_rows_leave_some_to_train_on() -> None:
    rows = world().rows
    few = replace(rows, users=rows.users % 60)
    train, validation, test = named(division(few))
    assert len(train) > len(test) / 2 > 0
    assert len(validation)


def test_the_same_generator_gives_the_same_division_and_another_one_another() -> None:
    rows = world().rows
    first, again, other = division(rows), division(rows), division(rows, seed=1)
    assert (first.test == again.test).all()
    assert not np.array_equal(first.test, other.test)


def test_whether_a_row_is_tested_does_not_depend_on_its_users_rows_of_the_other_class() -> None:
    # Negatives of users with positives are tested as often as those of users without.
    rng = np.random.default_rng(1)
    rows = world(3, positives=400, negatives=1200).rows
    buyers = np.isin(rows.users, rows.users[rows.labels])
    tested = np.zeros(len(rows))
    for _ in range(150):
        tested[split_rows(rows, rng, train=0.5, validation=0.2, minimum=3).test] += 1
    rates = [tested[~rows.labels & side].mean() for side in (buyers, ~buyers)]
    assert rates[0] == pytest.approx(rates[1], rel=0.2)


@pytest.mark.parametrize("value", [True, False])
def test_one_class_is_refused(value: bool) -> None:
    rows = world().rows
    with pytest.raises(NotMeasurable, match="two classes, and all 1200 examples are of one"):
        division(replace(rows, labels=np.full(len(rows), value)))


def test_a_concept_of_one_item_is_refused_with_the_count() -> None:
    rows = world().rows
    one = rows.subset(~rows.labels | (rows.items == rows.items[0]))
    with pytest.raises(NotMeasurable, match=r"0 positives are left for .*of 1 items and"):
        division(one)


def test_too_few_forget_users_are_refused_with_the_count() -> None:
    rows = world().rows
    few = replace(rows, users=np.where(rows.labels, rows.users % 4, rows.users))
    with pytest.raises(NotMeasurable, match=r"positives are left for \w+ .*57 items and 4 users"):
        division(few, minimum=5)


def test_positives_without_a_negative_of_their_code_are_refused() -> None:
    rows = world().rows
    with pytest.raises(NotMeasurable, match="balanced by level-1 code"):
        division(replace(rows, codes=rows.labels.astype(np.int64)))


def test_ranks_count_from_the_smallest_key_of_each_group() -> None:
    ranks = rank_within(np.array([1, 0, 1, 1, 0]), np.array([0.5, 0.2, 0.1, 0.9, 0.1]))
    assert ranks.tolist() == [1, 1, 0, 2, 0]
    assert rank_within(np.zeros(0, dtype=np.int64), np.zeros(0)).tolist() == []
