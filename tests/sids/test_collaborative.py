from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.p5 import co_occurrence, collaborative_table
from genrec_unlearn_bench.sids.table import SidTable
from tests.sids.test_train_sequences import train_of


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
