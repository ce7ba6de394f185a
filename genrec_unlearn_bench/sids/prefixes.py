"""Prefixes of semantic IDs, numbered: which items share their first codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["colliding_groups", "places_in_group", "prefix_ids"]

IntArray = NDArray[np.int64]


def prefix_ids(codes: IntArray) -> IntArray:
    """[N, L]: entry (i, l) numbers the distinct prefix ``codes[i, :l + 1]`` among those of its length.

    Numbers are dense, from 0, in lexicographic order, so ``ids[:, l].max() + 1`` counts the distinct prefixes. Padding
    (-1) counts as a code of its own. Each level needs one sort, and no key exceeds N times a level's size.
    """
    ids = np.empty(codes.shape, dtype=np.int64)
    current = np.zeros(len(codes), dtype=np.int64)
    for level in range(codes.shape[1]):
        column = codes[:, level] + 1
        width = int(column.max()) + 1 if len(column) else 1
        current = np.unique(current * width + column, return_inverse=True)[1].astype(np.int64)
        ids[:, level] = current
    return ids


def colliding_groups(codes: IntArray) -> list[IntArray]:
    """Item ids of every group of two or more items with the same codes, each ascending."""
    if not codes.size:
        return []
    last = prefix_ids(codes)[:, -1]
    sizes = np.bincount(last)
    # Items that are alone, most of a large catalogue, never become arrays of their own.
    shared = np.flatnonzero(sizes[last] > 1)
    order = shared[np.argsort(last[shared], kind="stable")]
    groups = np.split(order, np.cumsum(sizes[sizes > 1])[:-1])
    return [group.astype(np.int64) for group in groups if len(group)]


def places_in_group(codes: IntArray) -> IntArray:
    """[N] position of each item among those with its codes, in order of item id; 0 where it is alone."""
    if not codes.size:
        return np.zeros(len(codes), dtype=np.int64)
    last = prefix_ids(codes)[:, -1]
    order = np.argsort(last, kind="stable")
    ends = np.cumsum(np.bincount(last))
    starts = np.concatenate([[0], ends[:-1]])
    out = np.empty(len(codes), dtype=np.int64)
    out[order] = np.arange(len(codes), dtype=np.int64) - starts[last[order]]
    return out
