from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.splits import leave_one_out
from genrec_unlearn_bench.sids.p5 import appearance_order, user_items, walk


def train_of(sequences: list[list[int]]) -> Examples:
    """Leave-one-out over whole sequences, so that the last two items of each are valid and test targets."""
    users = np.repeat(np.arange(len(sequences)), [len(one) for one in sequences])
    return leave_one_out(users, np.concatenate([np.asarray(one) for one in sequences])).train


SEQUENCES = [[5, 3, 5, 8, 0, 1], [8, 2, 3, 9, 7], [4, 6, 2, 1]]


def test_items_are_ordered_by_first_appearance_then_by_id() -> None:
    # Train: 5 3 5 8 | 8 2 3 | 4 6; the valid and test items 0, 1, 9, 7 follow with the rest.
    order = appearance_order(train_of(SEQUENCES), 11)
    assert order.tolist() == [5, 3, 8, 2, 4, 6, 0, 1, 7, 9, 10]


def test_sets_of_users_hold_train_items_alone() -> None:
    had = user_items(train_of(SEQUENCES), 11).toarray()
    assert [np.flatnonzero(row).tolist() for row in had] == [[3, 5, 8], [2, 3, 8], [4, 6]]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_outside_the_train_rows_is_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, 30, rng.integers(4, 9)).tolist() for _ in range(12)]
    shuffled = [[*one[:-2], *rng.integers(0, 30, 2).tolist()] for one in sequences]
    one, other = train_of(sequences), train_of(shuffled)
    assert not np.array_equal(one.events, other.events), "the flat events do hold what comes later"
    np.testing.assert_array_equal(appearance_order(one, 30), appearance_order(other, 30))
    np.testing.assert_array_equal(user_items(one, 30).toarray(), user_items(other, 30).toarray())


def test_rows_are_walked_by_user_and_time_whatever_their_order() -> None:
    train = train_of(SEQUENCES)
    mixed = train.subset(np.random.default_rng(0).permutation(len(train)))
    for a, b in zip(walk(train), walk(mixed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_rows_at_all() -> None:
    empty = train_of(SEQUENCES).subset(np.zeros(0, dtype=np.int64))
    assert appearance_order(empty, 3).tolist() == [0, 1, 2]
    assert user_items(empty, 3).shape == (0, 3)
