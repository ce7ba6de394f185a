"""The prefix tree of all SIDs as flat arrays, one set a level.

A node of level l is a prefix of l + 1 codes; its number is the rank of that prefix in lexicographic order among the
prefixes of its length. So the children of a node are neighbours on the next level, the leaves are in the order of
the SIDs, and "lowest node first" means "lowest code first". Building is one sort (compressed sparse rows, as in
STATIC, arXiv 2602.22647, without its dense head).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

import numpy as np
import torch

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.errors import BenchError

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, eq=False)
class Trie:
    """L levels with n_0 <= n_1 <= ... <= n_{L-1} nodes; the nodes of the last level are the leaves.

    Items of different depth (P5-style indexers) are allowed: behind its last level an item has the code -1. Such a
    node says that the item ends; it consumes no token and has log-probability 0.

    Attributes:
        level_sizes: Number of codes of each level.
        codes: [n_l] a level: the last code of each node's prefix, -1 where the item has ended.
        first_child: [n_l + 1] for all levels but the last: the children of node i are the nodes
            ``first_child[l][i]`` up to ``first_child[l][i + 1]`` of level l + 1.
        first_item: [n_{L-1} + 1]: the items of leaf i are ``items[first_item[i]:first_item[i + 1]]``.
        items: [n] the items that are not blocked, by leaf, in item order within a leaf.
        has_ends: Whether a level holds nodes with the code -1.
    """

    level_sizes: tuple[int, ...]
    codes: tuple[IntArray, ...]
    first_child: tuple[IntArray, ...]
    first_item: IntArray
    items: IntArray
    has_ends: tuple[bool, ...]
    _on_device: dict[str, tuple[Tensors, Tensors]] = field(default_factory=dict, repr=False)

    @classmethod
    def build(cls, codes: IntArray, level_sizes: Sequence[int], *, blocked: BoolArray | None = None) -> Self:
        """The trie of the items that are not ``blocked`` [N]; prefixes that lose all their items are gone.

        ``codes[i, l]`` is in [0, level_sizes[l]), or -1 behind the last level. Raises BenchError without items.
        """
        kept = np.arange(len(codes)) if blocked is None else np.flatnonzero(~blocked)
        if not len(kept):
            raise BenchError(
                "there is no item to recommend: every item is blocked" if len(codes) else "the SID table is empty",
                hint="leave at least one item outside the forget set or the block list",
            )
        # lexsort is stable, so that items which share a SID stay in item order.
        order = kept[np.lexsort(codes[kept].T[::-1])]
        ranked = codes[order]
        # Where a prefix begins that is not the one of the item before.
        opens = np.logical_or.accumulate(ranked[1:] != ranked[:-1], axis=1)
        starts = [np.append(0, np.flatnonzero(opens[:, level]) + 1) for level in range(codes.shape[1])]
        level_codes = [ranked[first, level] for level, first in enumerate(starts)]
        closed = [np.append(first, len(order)) for first in starts]
        children = tuple(np.searchsorted(below, above).astype(np.int64) for above, below in pairwise(closed))
        return cls(
            level_sizes=tuple(int(size) for size in level_sizes),
            codes=tuple(level_codes),
            first_child=children,
            first_item=closed[-1],
            items=order,
            has_ends=tuple(bool((column < 0).any()) for column in level_codes),
        )

    @property
    def levels(self) -> int:
        return len(self.codes)

    @property
    def leaves(self) -> int:
        """Number of distinct SIDs."""
        return len(self.codes[-1])

    def on(self, device: torch.device) -> tuple[Tensors, Tensors]:
        """``codes`` and ``first_child``, copied to a device once."""
        key = str(device)
        if key not in self._on_device:
            codes, first_child = (tuple(map(torch.from_numpy, arrays)) for arrays in (self.codes, self.first_child))
            self._on_device[key] = tuple(t.to(device) for t in codes), tuple(t.to(device) for t in first_child)
        return self._on_device[key]
