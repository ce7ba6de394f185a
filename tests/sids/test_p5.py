from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.splits import leave_one_out
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.p5 import (
    appearance_order,
    co_occurrence,
    collaborative_table,
    digit_pieces,
    sequential_table,
    walk,
)
from genrec_unlearn_bench.sids.table import SidTable


def train_of(sequences: list[list[int]]) -> Examples:
    """Leave-one-out over whole sequences, so that the last two items of each are valid and test targets."""
    users = np.repeat(np.arange(len(sequences)), [len(one) for one in sequences])
    return leave_one_out(users, np.concatenate([np.asarray(one) for one in sequences])).train


SEQUENCES = [[5, 3, 5, 8, 0, 1], [8, 2, 3, 9, 7], [4, 6, 2, 1]]


def test_items_are_ordered_by_first_appearance_then_by_id() -> None:
    # Train: 5 3 5 8 | 8 2 3 | 4 6; the valid and test items 0, 1, 9, 7 follow with the rest.
    order = appearance_order(train_of(SEQUENCES), 11)
    assert order.tolist() == [5, 3, 8, 2, 4, 6, 0, 1, 7, 9, 10]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_outside_the_train_rows_is_read(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, 30, rng.integers(4, 9)).tolist() for _ in range(12)]
    shuffled = [[*one[:-2], *rng.integers(0, 30, 2).tolist()] for one in sequences]
    one, other = train_of(sequences), train_of(shuffled)
    assert not np.array_equal(one.events, other.events), "the flat events do hold what comes later"
    np.testing.assert_array_equal(appearance_order(one, 30), appearance_order(other, 30))
    np.testing.assert_array_equal(co_occurrence(one, 30).toarray(), co_occurrence(other, 30).toarray())


def test_rows_are_walked_by_user_and_time_whatever_their_order() -> None:
    train = train_of(SEQUENCES)
    mixed = train.subset(np.random.default_rng(0).permutation(len(train)))
    for a, b in zip(walk(train), walk(mixed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_no_rows_at_all() -> None:
    empty = train_of(SEQUENCES).subset(np.zeros(0, dtype=np.int64))
    assert appearance_order(empty, 3).tolist() == [0, 1, 2]
    assert co_occurrence(empty, 3).nnz == 0


def test_numbers_follow_the_first_appearance_by_hand() -> None:
    # Appearance 2, 0, 1 then 3, 4: numbers 99, 100, 101, 102, 103.
    table = sequential_table(train_of([[2, 0, 1, 4, 4]]), 5, start=99, pieces=digit_pieces)
    assert table.tree is not None
    # Pieces by length, then name: "0" "1" "2" "3" "10" "99".
    assert (table.tree.content, table.tree.ordinals, table.tree.end) == (6, 0, 6)
    end, ten = 6, 4
    assert table.codes.tolist() == [[ten, 0, end], [ten, 1, end], [5, end, -1], [ten, 2, end], [ten, 3, end]]
    assert table.level_sizes == (7, 7, 7)
    assert table.quantised_codes.tolist() == [[ten, 0], [ten, 1], [5, -1], [ten, 2], [ten, 3]]
    assert table.quantised_sizes == (6, 6)


@given(st.integers(0, 12_000), st.integers(1, 60), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_every_item_has_a_sid_and_none_is_the_prefix_of_another(start: int, items: int, width: int) -> None:
    train = train_of([list(range(items))] if items > 2 else [[0, 0, 0, 0]])
    table = sequential_table(train, items, start=start, pieces=lambda number: digit_pieces(number, width))
    sids = [tuple(code for code in row if code >= 0) for row in table.codes.tolist()]
    assert len(set(sids)) == items
    assert table.tree is not None
    for sid in sids:
        assert sid[-1] == table.tree.end
        assert table.tree.end not in sid[:-1]
    assert Trie.build(table.codes, table.level_sizes).leaves == items


def test_neighbours_share_their_leading_pieces() -> None:
    train = train_of([list(range(50))])
    table = sequential_table(train, 50, start=1001, pieces=digit_pieces)
    assert len(np.unique(table.codes[:, 0])) == 1
    assert len(np.unique(table.codes[:, 1])) == 50


def test_a_tokenizer_that_cannot_tell_numbers_apart_is_refused() -> None:
    with pytest.raises(DataFault, match="same pieces"):
        sequential_table(train_of([[0, 1, 2, 3]]), 4, start=1, pieces=lambda number: ["<unk>"])


@pytest.mark.parametrize(
    ("number", "width", "pieces"),
    [(7, 2, ["7"]), (100, 2, ["10", "0"]), (1001, 2, ["10", "01"]), (12345, 3, ["123", "45"])],
)
def test_numbers_are_cut_from_the_left(number: int, width: int, pieces: list[str]) -> None:
    assert digit_pieces(number, width) == pieces


def communities(groups: int, members: int, users: int, seed: int = 0) -> list[list[int]]:
    """Users who buy within one group; the last two purchases come from anywhere (valid and test)."""
    rng = np.random.default_rng(seed)
    out = []
    for user in range(users):
        own = user % groups * members + rng.permutation(members)[:6]
        out.append([*own.tolist(), *rng.integers(0, groups * members, 2).tolist()])
    return out


def table_of(sequences: list[list[int]], items: int, **changes: int) -> SidTable:
    options = {"clusters": 3, "leaf_size": 10, "tokens": 100, "slack": 2, "seed": 0} | changes
    return collaborative_table(train_of(sequences), items, **options)


def test_pairs_within_a_user_are_counted_once() -> None:
    graph = co_occurrence(train_of([[0, 1, 0, 9, 9], [1, 0, 2, 9, 9]]), 4).toarray()
    assert graph.tolist() == [[0, 2, 1, 0], [2, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_groups_that_buy_apart_are_the_clusters() -> None:
    table = table_of(communities(3, 8, 90), 25)
    assert table.tree is not None
    groups = table.codes[:24, 0].reshape(3, 8)
    assert (groups == groups[:, :1]).all()
    assert len(set(groups[:, 0].tolist())) == 3
    # The last token counts the items of the leaf in the order of their ids, and an end follows.
    np.testing.assert_array_equal(table.codes[:24, 1].reshape(3, 8) - table.tree.content, np.tile(np.arange(8), (3, 1)))
    assert (table.codes[:, 2] == table.tree.end).all()
    # Item 24 was had by nobody: it stands in a last cluster of its own.
    assert table.codes[24, 0] == 3
    assert table.tree.ordinals == 8 + 2


def test_large_clusters_are_split_again_and_depths_differ() -> None:
    # Group 0 is large and falls apart in three; groups 1 and 2 are small.
    rng = np.random.default_rng(1)
    sequences = []
    for user in range(240):
        part = user % 3 * 8
        own = part + rng.permutation(8)[:5]
        crossing = rng.integers(0, 24, 1)
        sequences.append([*own.tolist(), *crossing.tolist(), 0, 0])
    sequences += [[*(24 + rng.permutation(6)).tolist(), 0, 0] for _ in range(40)]
    sequences += [[*(30 + rng.permutation(6)).tolist(), 0, 0] for _ in range(40)]
    table = table_of(sequences, 36)
    assert table.quantised_levels == 2
    content = table.quantised_codes
    assert (content[:24, 1] >= 0).all()
    assert (content[24:, 1] < 0).all()
    parts = content[:24, 1].reshape(3, 8)
    assert (parts == parts[:, :1]).all()
    # Tokens are dealt out breadth first: three clusters, then the parts of the first one.
    assert sorted(set(content[:, 0].tolist())) == [0, 1, 2]
    assert sorted(set(parts[:, 0].tolist())) == [3, 4, 5]
    assert (table.codes[24:, 3] == -1).all()
    assert Trie.build(table.codes, table.level_sizes).leaves == 36


def test_tokens_begin_anew_when_they_are_used_up() -> None:
    rng = np.random.default_rng(0)
    sequences = [rng.permutation(60)[:8].tolist() for _ in range(60)]
    table = table_of(sequences, 60, leaf_size=4, tokens=5)
    assert table.tree is not None
    assert table.tree.content == 5
    assert table.quantised_levels > 2
    sids = {tuple(row) for row in table.codes.tolist()}
    assert len(sids) == 60


def test_what_cannot_be_split_is_cut_by_id() -> None:
    # No two items are ever had by one user, so the graph has no edges.
    table = table_of([[item] * 4 for item in range(30)], 30)
    report = health(table)
    assert report.collisions.excess == 0
    assert report.quantised_collisions.largest <= 10


@pytest.mark.parametrize("seed", range(3))
def test_valid_and_test_items_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sequences = communities(4, 9, 60, seed)
    other = [[*one[:-2], *rng.integers(0, 36, 2).tolist()] for one in sequences]
    np.testing.assert_array_equal(table_of(sequences, 36).codes, table_of(other, 36).codes)


def test_an_empty_catalogue_is_refused() -> None:
    with pytest.raises(DataFault, match="no items"):
        table_of([[0, 0, 0]], 0)
