"""What is left out before splitting, and that everything else stays."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.splits import Interactions, clean, k_core
from genrec_unlearn_bench.errors import DataFault


def catalogue(count: int) -> ItemTable:
    names = tuple(f"item{n}" for n in range(count))
    empty = ("",) * count
    return ItemTable(names, names, empty, empty, empty, np.arange(count, dtype=np.float64), ((),) * count, empty)


def run(log: list[tuple[int, int, int]], k: int = 0, items: int = 10) -> tuple[ItemTable, Interactions, Counter[str]]:
    table = np.array(log, dtype=np.int64).reshape(-1, 3)
    interactions = Interactions(table[:, 0], table[:, 1], table[:, 2])
    dropped: Counter[str] = Counter()
    return *clean(catalogue(items), interactions, k, dropped, "here"), +dropped


def test_copies_are_dropped_and_repeats_stay() -> None:
    kept, cleaned, dropped = run([(5, 1, 10), (5, 1, 10), (5, 1, 11), (5, 2, 10), (7, 1, 10), (7, 3, 9), (5, 1, 10)])
    assert cleaned.users.tolist() == [0, 0, 0, 1, 1]
    assert cleaned.items.tolist() == [1, 1, 2, 1, 3]
    assert cleaned.times is not None
    assert cleaned.times.tolist() == [10, 11, 10, 10, 9]
    assert dropped == {"repeated line (same user, item and time)": 2}
    assert len(kept) == 10, "without a k-core the catalogue stays whole"


def test_sequences_keep_repeats() -> None:
    log = Interactions(np.array([0, 0, 0]), np.array([4, 4, 4]), None)
    _, cleaned = clean(catalogue(5), log, 0, Counter(), "here")
    assert cleaned.items.tolist() == [4, 4, 4]
    assert cleaned.times is None


def test_users_with_one_interaction() -> None:
    _, cleaned, dropped = run([(9, 1, 1), (3, 1, 2), (3, 2, 3)])
    assert cleaned.users.tolist() == [0, 0]
    assert dropped == {"user with a single interaction": 1}


def test_core_removes_items_and_users_and_renumbers() -> None:
    log = [(8, 9, 1), (8, 4, 2), (2, 9, 3), (2, 4, 4), (2, 0, 5), (6, 4, 6)]
    kept, cleaned, dropped = run(log, k=2)
    assert kept.ids == ("item4", "item9")
    assert kept.prices.tolist() == [4.0, 9.0]
    assert cleaned.users.tolist() == [0, 0, 1, 1]
    assert cleaned.items.tolist() == [1, 0, 1, 0]
    assert dropped == {"interaction outside the 2-core": 2, "user outside the 2-core": 1, "item outside the 2-core": 8}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=60),
    st.integers(0, 3),
)
def test_every_line_is_kept_or_counted(log: list[tuple[int, int, int]], k: int) -> None:
    try:
        kept, cleaned, dropped = run(log, k)
    except DataFault:
        return
    left_out = sum(
        count for reason, count in dropped.items() if reason.startswith(("repeated", "interaction", "user with"))
    )
    assert len(cleaned.items) + left_out == len(log)
    names = [kept.ids[row] for row in cleaned.items]
    assert set(names) <= {f"item{item}" for _, item, _ in log}
    counts = np.bincount(cleaned.users)
    assert counts.min() >= max(k, 2)


@pytest.mark.parametrize(
    ("log", "k", "what"),
    [
        ([], 0, "no interaction in the data"),
        ([(0, 0, 0), (1, 1, 1)], 0, "single one"),
        ([(0, 0, 0), (0, 1, 1)], 5, "5-core"),
    ],
)
def test_nothing_left(log: list[tuple[int, int, int]], k: int, what: str) -> None:
    with pytest.raises(DataFault, match=what):
        run(log, k)


def slow(pairs: list[tuple[int, int]], k: int) -> list[bool]:
    """One row at a time, in whatever order: the fixed point does not depend on it."""
    alive = [True] * len(pairs)
    changed = True
    while changed:
        changed = False
        for index, (user, item) in enumerate(pairs):
            if not alive[index]:
                continue
            others = [pair for pair, there in zip(pairs, alive, strict=True) if there]
            if sum(u == user for u, _ in others) < k or sum(i == item for _, i in others) < k:
                alive[index] = False
                changed = True
    return alive


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40), st.integers(0, 4))
def test_is_the_fixed_point(pairs: list[tuple[int, int]], k: int) -> None:
    users = np.array([user for user, _ in pairs], dtype=np.int64)
    items = np.array([item for _, item in pairs], dtype=np.int64)
    assert k_core(users, items, k).tolist() == (slow(pairs, k) if k > 1 else [True] * len(pairs))


def test_one_pass_is_not_enough() -> None:
    # A chain: dropping the first user makes the first item rare, which makes the next user rare, and so on.
    n = 50
    users = np.repeat(np.arange(n), 2)
    items = np.stack([np.arange(n), np.arange(n) + 1], axis=1).ravel()
    assert not k_core(users, items, 2).any()
    assert k_core(np.append(users, [0, n - 1]), np.append(items, [n, 0]), 2).all()
