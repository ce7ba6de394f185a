from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.tokens.discretise import best_first, discretise


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_best_first_lists_tuples_in_the_order_of_brute_force(seed: int, a: int, b: int, c: int) -> None:
    rng = np.random.default_rng(seed)
    scores = [rng.normal(size=n).astype(np.float32) for n in (a, b, c)]
    ours = list(best_first(scores, 100))
    total = {
        t: sum(float(s[k]) for s, k in zip(scores, t, strict=True))
        for t in itertools.product(range(a), range(b), range(c))
    }
    assert sorted(total) == sorted(ours)
    np.testing.assert_allclose([total[t] for t in ours], sorted(total.values(), reverse=True), atol=1e-6)


def table() -> SidTable:
    codes = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]])
    return SidTable(codes, (4, 4, 3), quantised_levels=2)


def scores(*wanted: tuple[int, int]) -> list[np.ndarray]:
    levels = []
    for level in range(2):
        matrix = np.zeros((len(wanted), 4), dtype=np.float32)
        for row, codes in enumerate(wanted):
            matrix[row] = -np.arange(4) * 0.01
            matrix[row, codes[level]] = 1.0 + row
        levels.append(matrix)
    return levels


def test_free_codes_are_taken_with_ordinal_zero() -> None:
    outcome = discretise(table(), np.array([4]), scores((3, 2)))
    np.testing.assert_array_equal(outcome.table.codes[4], [3, 2, 0])
    assert outcome.moved == 1
    assert outcome.moved_by_level == (1, 1)
    assert outcome.collisions == 0
    assert outcome.table.version == 1


def test_an_item_that_keeps_its_codes_keeps_its_ordinal() -> None:
    outcome = discretise(table(), np.array([4]), scores((0, 0)))
    np.testing.assert_array_equal(outcome.table.codes, table().codes)
    assert outcome.moved == 0


def test_codes_of_retain_items_and_of_earlier_concept_items_are_never_taken() -> None:
    outcome = discretise(table(), np.array([0, 4]), scores((1, 1), (1, 1)))
    rows = {tuple(r) for r in outcome.table.codes.tolist()}
    assert len(rows) == 5
    np.testing.assert_array_equal(outcome.table.codes[[1, 2, 3]], table().codes[[1, 2, 3]])
    assert outcome.collisions == 2


def test_a_sid_of_a_concept_item_is_not_free_before_or_after_that_item_moved() -> None:
    """Item 1 comes first and wants item 0's SID; item 0 moves away and leaves a SID that item 4 wants."""
    outcome = discretise(table(), np.array([4, 0, 1]), scores((0, 1), (2, 2), (0, 0)))
    assert outcome.table.codes[[4, 0, 1]].tolist() == [[0, 0, 1], [2, 2, 0], [0, 1, 0]]
    assert outcome.collisions == 2


def test_without_free_candidates_the_last_level_takes_a_free_code() -> None:
    outcome = discretise(table(), np.array([0]), scores((1, 1)), candidates=1)
    assert outcome.fallback_items == 1
    assert outcome.table.codes[0, 0] == 1
    assert tuple(outcome.table.codes[0, :2]) not in {(1, 0), (1, 1)}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_sids_stay_unique_whatever_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prefix = np.stack(np.unravel_index(rng.choice(64, 30, replace=False), (4, 4, 4)), axis=1)
    before = SidTable(np.concatenate([prefix, np.zeros((30, 1), dtype=np.int64)], 1), (4, 4, 4, 2), 3)
    items = rng.choice(30, 10, replace=False)
    outcome = discretise(before, items, [rng.normal(size=(10, 4)).astype(np.float32) for _ in range(3)])
    assert len({tuple(r) for r in outcome.table.codes.tolist()}) == 30
    others = np.setdiff1d(np.arange(30), items)
    np.testing.assert_array_equal(outcome.table.codes[others], before.codes[others])
