from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genrec_unlearn_bench.sids.table import colliding_groups, ordinals, prefix_ids

codes_strategy = st.tuples(st.integers(1, 30), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-1, 3))
)


@given(codes_strategy)
def test_equal_numbers_exactly_for_equal_prefixes(codes: np.ndarray) -> None:
    ids = prefix_ids(codes)
    for level in range(codes.shape[1]):
        tuples = [tuple(row) for row in codes[:, : level + 1].tolist()]
        ranks = {prefix: rank for rank, prefix in enumerate(sorted(set(tuples)))}
        assert ids[:, level].tolist() == [ranks[prefix] for prefix in tuples]


@given(codes_strategy)
def test_groups_hold_every_duplicate_once(codes: np.ndarray) -> None:
    groups = colliding_groups(codes)
    rows = [tuple(row) for row in codes.tolist()]
    expected = {i for i, row in enumerate(rows) if rows.count(row) > 1}
    assert {int(i) for group in groups for i in group} == expected
    assert sum(map(len, groups)) == len(expected)
    assert all(len({rows[i] for i in group}) == 1 and list(group) == sorted(group) for group in groups)


def test_long_ids_do_not_overflow() -> None:
    codes = np.full((2, 8), 65_535, dtype=np.int64)
    codes[1, 7] = 65_534
    assert prefix_ids(codes)[:, -1].tolist() == [1, 0]


def test_no_items() -> None:
    assert colliding_groups(np.zeros((0, 3), np.int64)) == []


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=0, max_size=40))
def test_places_count_within_every_group(rows: list[tuple[int, int]]) -> None:
    codes = np.array(rows, dtype=np.int64).reshape(-1, 2)
    seen: dict[tuple[int, int], list[int]] = {}
    expected = []
    for item, row in enumerate(rows):
        expected.append(len(seen.setdefault(row, [])))
        seen[row].append(item)
    assert ordinals(codes).tolist() == expected
    groups = [group.tolist() for group in colliding_groups(codes)]
    assert groups == [seen[row] for row in sorted(seen) if len(seen[row]) > 1]
