"""Neighbours by text and by co-purchase: by hand, and against brute force over dense matrices."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.neighbours import (
    FEWEST_USERS,
    NEAREST,
    Neighbours,
    find_neighbours,
    history_neighbours,
    text_neighbours,
)
from genrec_unlearn_bench.data.splits import leave_one_out
from tests.data.worlds import assembled, dataset, item_table


def pairs(adjacency) -> set[tuple[int, int]]:  # type: ignore[no-untyped-def]
    return set(zip(*(axis.tolist() for axis in adjacency.nonzero()), strict=True))


def brute_force(similarity: np.ndarray) -> set[tuple[int, int]]:
    """Pairs that are each among the other's nearest; ties by item number."""
    nearest = []
    for row, values in enumerate(np.round(similarity, 9)):
        others = sorted((-value, column) for column, value in enumerate(values) if column != row and value > 0)
        nearest.append({column for _, column in others[:NEAREST]})
    return {(i, j) for i, found in enumerate(nearest) for j in found if i in nearest[j]}


def sequences(*lists: list[int]) -> Dataset:
    users = np.repeat(np.arange(len(lists)), [len(row) for row in lists])
    items = np.concatenate([np.asarray(row) for row in lists])
    parts = leave_one_out(users.astype(np.int64), items.astype(np.int64), None)
    return assembled(item_table(int(items.max()) + 1), parts)


def test_text_neighbours_by_hand() -> None:
    titles = ["red steel knife", "blue steel knife", "garden hose", "Hose, GARDEN", "lonely", ""]
    items = replace(item_table(6, titles=titles), titles=tuple(titles))
    # The last item's text is its id; that it has in common with nobody.
    assert pairs(text_neighbours(items)) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    marked = np.array([True, False, False, True, False, False])
    both = Neighbours(text_neighbours(items), text_neighbours(items))
    assert np.flatnonzero(both.of(marked)).tolist() == [1, 2]


def test_everybodys_neighbour_keeps_only_its_own_nearest() -> None:
    titles = ["hub a b c d e f", *(f"hub {letter}" for letter in "abcdef")]
    found = pairs(text_neighbours(item_table(7, titles=titles)))
    assert sum(1 for i, _ in found if i == 0) == NEAREST


@pytest.mark.parametrize("seed", range(3))
def test_text_neighbours_are_those_of_brute_force(seed: int) -> None:
    generator = np.random.default_rng(seed)
    titles = [" ".join(f"w{int(word)}" for word in generator.zipf(1.6, 6).clip(1, 60)) for _ in range(150)]
    titles[7] = titles[3]
    weights = TfidfVectorizer(sublinear_tf=True, token_pattern=r"[^\W_]+").fit_transform(titles).toarray()
    assert pairs(text_neighbours(item_table(150, titles=titles))) == brute_force(weights @ weights.T)


def test_ordinary_words_make_nobody_alike() -> None:
    titles = [f"tool{row} steel" if row < 40 else f"toy{row}" for row in range(300)]
    assert not pairs(text_neighbours(item_table(300, titles=titles)))


@pytest.mark.parametrize("seed", range(3))
def test_history_neighbours_are_those_of_brute_force(seed: int) -> None:
    world = dataset(item_table(50), users=60, length=8, seed=seed, skew=0.6)
    train, buyers = world.train, defaultdict(set)
    for row in range(len(train)):
        for item in [*train.events[train.starts[row] : train.ends[row]], train.targets[row]]:
            buyers[int(item)].add(int(train.users[row]))
    similarity = np.zeros((50, 50))
    for i in range(50):
        for j in range(50):
            common = len(buyers[i] & buyers[j])
            if common >= FEWEST_USERS:
                similarity[i, j] = common / np.sqrt(len(buyers[i]) * len(buyers[j]))
    assert pairs(history_neighbours(train, 50)) == brute_force(similarity)


def test_one_user_in_common_is_chance_and_held_out_items_are_not_seen() -> None:
    # Items 0 and 1 have two users in common, 2 and 3 one; the last two of each user are validation and test.
    world = sequences([0, 1, 4, 5], [0, 1, 5, 4], [2, 3, 4, 5], [6, 2, 4, 5])
    assert pairs(history_neighbours(world.train, 7)) == {(0, 1), (1, 0)}


def test_the_whole_is_both_kinds_and_the_same_each_time() -> None:
    world = dataset(item_table(80, titles=[f"thing {row % 30}" for row in range(80)]), users=80, skew=0.3)
    first, again = find_neighbours(world), find_neighbours(world)
    for one, other in zip(first, again, strict=True):
        assert pairs(one) == pairs(other) == {(j, i) for i, j in pairs(one)}
        assert all(i != j for i, j in pairs(one))
