from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.sids.table import SidTable, TreeCodes
from genrec_unlearn_bench.unlearning.tokens.discretise import discretise


def numbers() -> SidTable:
    """Five numbers over four pieces: three of one piece, two of two. The end is 4."""
    codes = np.array([[0, 4, -1], [1, 4, -1], [2, 4, -1], [3, 0, 4], [3, 1, 4]])
    return SidTable(codes, (5, 5, 5), 2, tree=TreeCodes(content=4))


def leaves() -> SidTable:
    """Clusters 0 and 1 under the root, 0 split into 2 and 3; places 4 to 6, end 7."""
    codes = np.array([[0, 2, 4, 7], [0, 2, 5, 7], [0, 3, 4, 7], [1, 4, 7, -1], [1, 5, 7, -1], [1, 6, 7, -1]])
    return SidTable(codes, (8,) * 4, 2, tree=TreeCodes(content=4, ordinals=3))


def wish(table: SidTable, *paths: tuple[int, ...]) -> list[np.ndarray]:
    assert table.tree is not None
    out = [np.tile(-np.arange(table.tree.content) * 0.01, (len(paths), 1)).astype(np.float32) for _ in range(2)]
    for row, path in enumerate(paths):
        for level, code in enumerate(path):
            out[level][row, code] = 1.0
    return out


def test_a_number_keeps_its_length_and_its_end() -> None:
    outcome = discretise(numbers(), np.array([3]), wish(numbers(), (2, 2)))
    assert outcome.table.codes[3].tolist() == [2, 2, 4]
    assert (outcome.moved_by_level, outcome.moved, outcome.collisions) == ((1, 1), 1, 0)


def test_a_number_that_is_taken_is_not_given_twice() -> None:
    # Item 0 has one piece; all four are wanted elsewhere but its own and 3, which only longer numbers begin with.
    outcome = discretise(numbers(), np.array([0]), wish(numbers(), (1, 0)))
    assert outcome.table.codes[0].tolist() == [0, 4, -1]
    assert outcome.collisions == 1
    free = discretise(numbers(), np.array([0]), wish(numbers(), (3, 0)))
    assert free.table.codes[0].tolist() == [3, 4, -1]


def test_items_join_a_leaf_at_a_free_place_and_full_leaves_are_passed_by() -> None:
    table = leaves()
    # Both want the path 0-3: item 0 has place 4, which item 2 holds already, so it takes the next one; item 1 keeps 5.
    outcome = discretise(table, np.array([1, 0]), wish(table, (0, 3), (0, 3)))
    assert outcome.table.codes[1].tolist() == [0, 3, 5, 7]
    assert outcome.table.codes[0].tolist() == [0, 3, 6, 7]
    # The leaf 0-3 is full now; the next best path under these scores is 1-3, which is free.
    again = discretise(outcome.table, np.array([3]), wish(table, (1, 0)))
    assert again.table.codes[3].tolist() == [1, 4, 7, -1]


def test_no_free_sid_is_an_error() -> None:
    # Two numbers of one piece outside: nothing is left for a third one.
    table = SidTable(np.array([[0, 2], [1, 2], [1, 2]]), (3, 3), 1, tree=TreeCodes(content=2))
    with pytest.raises(BenchError, match="taken"):
        discretise(table, np.array([2]), [np.zeros((1, 2), np.float32)])


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_sids_stay_unique_prefix_free_and_of_their_length(seed: int, ordinals: bool) -> None:
    rng = np.random.default_rng(seed)
    tree = TreeCodes(content=5, ordinals=3 if ordinals else 0)
    rows: set[tuple[int, ...]] = set()
    while len(rows) < 12:
        path = tuple(rng.integers(0, 5, rng.integers(1, 4)).tolist())
        rows.add((*path, *((5 + int(rng.integers(3)),) if ordinals else ()), tree.end))
    width = max(map(len, rows))
    codes = np.full((12, width), -1)
    for item, row in enumerate(sorted(rows)):
        codes[item, : len(row)] = row
    depth = int(((codes >= 0) & (codes < 5)).sum(1).max())
    table = SidTable(codes, (tree.size,) * width, depth, tree=tree)
    items = rng.permutation(12)[:5]
    scores = [rng.normal(size=(5, 5)).astype(np.float32) for _ in range(depth)]
    outcome = discretise(table, items, scores, candidates=2)
    new = outcome.table
    np.testing.assert_array_equal((new.codes >= 0).sum(1), (codes >= 0).sum(1))
    np.testing.assert_array_equal((new.quantised_codes >= 0).sum(1), (table.quantised_codes >= 0).sum(1))
    assert Trie.build(new.codes, new.level_sizes).leaves == 12
    assert len({tuple(row) for row in new.codes.tolist()}) == 12
    others = np.setdiff1d(np.arange(12), items)
    np.testing.assert_array_equal(new.codes[others], codes[others])
    assert all(row.count(tree.end) == 1 for row in new.codes.tolist())
