"""The k-core is the largest set that meets its own condition."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.data.cleaning import k_core


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
