"""Ranks of semantic IDs beside ranks of items."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.sid_level import hit_rate, mean_ndcg, sid_numbers, sid_ranks

# Items 0 and 2 share an ID, and so do 3, 4 and 5.
CODES = np.array([[1, 1], [1, 2], [1, 1], [0, 3], [0, 3], [0, 3], [2, 0]])


def ranking(*lists: list[int]) -> Ranking:
    items = np.asarray(lists, dtype=np.int64)
    return Ranking(items, np.zeros(items.shape, dtype=np.float32))


def test_items_with_one_id_have_one_number() -> None:
    numbers = sid_numbers(CODES)
    assert numbers[0] == numbers[2]
    assert len(set(numbers[[3, 4, 5]])) == 1
    assert len(set(numbers.tolist())) == 4


def test_ids_count_once() -> None:
    found = ranking([3, 4, 5, 0, 2, 1], [0, 2, 1, 6, -1, -1], [0, 2, 1, 6, -1, -1], [6, -1, -1, -1, -1, -1])
    targets = np.array([2, 2, 6, 1])
    np.testing.assert_array_equal(found.ranks(targets), [5, 2, 4, 0])
    np.testing.assert_array_equal(sid_ranks(found, sid_numbers(CODES), targets), [2, 1, 3, 0])


def test_where_all_ids_differ_both_are_the_same() -> None:
    rng = np.random.default_rng(0)
    lists = np.stack([rng.permutation(30)[:12] for _ in range(50)])
    found, targets = ranking(*lists.tolist()), rng.integers(30, size=50)
    codes = np.stack([np.arange(30) // 6, np.arange(30) % 6], axis=1)
    np.testing.assert_array_equal(sid_ranks(found, sid_numbers(codes), targets), found.ranks(targets))


def test_values_by_hand() -> None:
    ranks = np.array([1, 3, 0, 11])
    assert hit_rate(ranks, 5) == 0.5
    assert hit_rate(ranks, 20) == 0.75
    assert mean_ndcg(ranks, 10) == pytest.approx((1 + 0.5) / 4)
