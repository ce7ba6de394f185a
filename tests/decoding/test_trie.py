from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import BenchError
from tests.decoding.sessions import sids_of

SIZES = (3, 4, 2)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Codes with collisions and shared prefixes, some items ending early, some blocked (never all)."""
    count = draw(st.integers(1, 40))
    columns = [draw(arrays(np.int64, count, elements=st.integers(0, size - 1))) for size in SIZES]
    codes = np.stack(columns, axis=1)
    depth = draw(arrays(np.int64, count, elements=st.integers(1, 3)))
    codes[np.arange(3)[None, :] >= depth[:, None]] = -1
    blocked = draw(arrays(np.bool_, count))
    blocked[draw(st.integers(0, count - 1))] = False
    return codes, blocked


def paths(trie: Trie) -> dict[tuple[int, ...], list[int]]:
    """SID -> items, by walking down from the root."""
    found: dict[tuple[int, ...], list[int]] = {}
    stack = [((int(code),), 0, node) for node, code in enumerate(trie.codes[0])]
    while stack:
        prefix, level, node = stack.pop()
        if level == trie.levels - 1:
            found[prefix] = trie.items[trie.first_item[node] : trie.first_item[node + 1]].tolist()
            continue
        for child in range(trie.first_child[level][node], trie.first_child[level][node + 1]):
            stack.append(((*prefix, int(trie.codes[level + 1][child])), level + 1, child))
    return found


@given(tables())
@settings(max_examples=150, deadline=None)
def test_the_arrays_hold_exactly_the_items_of_a_dictionary(table: tuple[np.ndarray, np.ndarray]) -> None:
    codes, blocked = table
    expected: dict[tuple[int, ...], list[int]] = {}
    for item, row in enumerate(codes.tolist()):
        if not blocked[item]:
            expected.setdefault(tuple(row), []).append(item)
    assert paths(Trie.build(codes, SIZES, blocked=blocked)) == expected


@given(tables())
@settings(max_examples=100, deadline=None)
def test_nodes_stand_in_lexicographic_order_of_their_prefixes(table: tuple[np.ndarray, np.ndarray]) -> None:
    codes, blocked = table
    trie = Trie.build(codes, SIZES, blocked=blocked)
    for level in range(3):
        prefixes = sorted({tuple(row[: level + 1]) for row in codes[~blocked].tolist()})
        assert trie.codes[level].tolist() == [prefix[-1] for prefix in prefixes]
        assert trie.has_ends[level] == any(prefix[-1] < 0 for prefix in prefixes)
        if level < 2:
            assert trie.first_child[level][0] == 0
            assert trie.first_child[level][-1] == len(trie.codes[level + 1])
            assert (np.diff(trie.first_child[level]) > 0).all(), "no node without children"
    leaves = np.arange(trie.leaves)
    assert [tuple(row) for row in sids_of(trie, leaves).tolist()] == sorted({*map(tuple, codes[~blocked].tolist())})


def test_blocking_takes_away_prefixes_that_have_no_item_left() -> None:
    codes = np.array([[0, 0, 0], [0, 0, 1], [1, 2, 0], [1, 3, 1]])
    trie = Trie.build(codes, SIZES, blocked=np.array([False, False, True, True]))
    assert trie.codes[0].tolist() == [0]
    assert trie.leaves == 2
    partly = Trie.build(codes, SIZES, blocked=np.array([False, True, True, False]))
    assert [codes.tolist() for codes in partly.codes] == [[0, 1], [0, 3], [0, 1]]


def test_items_that_share_a_sid_stay_in_item_order() -> None:
    codes = np.array([[1, 1, 1], [0, 0, 0], [1, 1, 1], [0, 0, 0], [1, 1, 1]])
    trie = Trie.build(codes, SIZES)
    assert trie.items.tolist() == [1, 3, 0, 2, 4]
    assert trie.first_item.tolist() == [0, 2, 5]


@pytest.mark.parametrize(
    ("codes", "blocked", "words"),
    [
        (np.zeros((2, 3), dtype=np.int64), np.ones(2, dtype=np.bool_), "every item is blocked"),
        (np.zeros((0, 3), dtype=np.int64), None, "empty"),
    ],
)
def test_a_table_that_cannot_be_decoded_is_refused(codes: np.ndarray, blocked: np.ndarray | None, words: str) -> None:
    with pytest.raises(BenchError, match=words):
        Trie.build(codes, SIZES, blocked=blocked)


def test_tensors_are_copied_to_a_device_once() -> None:
    trie = Trie.build(np.array([[0, 1, 1], [2, 0, 0]]), SIZES)
    device = torch.device("cpu")
    tensors = trie.on(device)
    assert tensors is trie.on(device)
    assert [level.tolist() for level in tensors[0]] == [level.tolist() for level in trie.codes]
