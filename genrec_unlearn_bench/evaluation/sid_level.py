"""Ranks of semantic IDs, as repositories count them that compare strings of tokens: items that share an ID count once.

Our own metrics rank items. Where an ID stands for several items, these follow each other in the list, and all but the
first lose places; a hit on the string is therefore never worse than the hit on the item.
"""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking

__all__ = ["hit_rate", "mean_ndcg", "sid_numbers", "sid_ranks"]


def sid_numbers(codes: IntArray) -> IntArray:
    """[N] a number for every item, the same for items with the same codes [N, L]."""
    _, numbers = np.unique(codes, axis=0, return_inverse=True)
    return np.asarray(numbers.ravel(), dtype=np.int64)


def sid_ranks(ranking: Ranking, numbers: IntArray, targets: IntArray) -> IntArray:
    """[B] 1-based rank of each target's semantic ID among the different ones in its list, 0 where it is not there.

    Args:
        ranking: [B, k] items; those that share an ID stand together.
        numbers: [N] from ``sid_numbers``.
    """
    ids = np.where(ranking.items >= 0, numbers[ranking.items], -1)
    new = np.ones_like(ids, dtype=np.bool_)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    hits = ids == numbers[targets][:, None]
    places = np.cumsum(new, axis=1)[np.arange(len(ids)), hits.argmax(axis=1)]
    return np.where(hits.any(axis=1), places, 0).astype(np.int64)


def hit_rate(ranks: IntArray, cutoff: int) -> float:
    """Share of rows whose target is among the first ``cutoff``; with one relevant each, this is recall."""
    return float(((ranks > 0) & (ranks <= cutoff)).mean())


def mean_ndcg(ranks: IntArray, cutoff: int) -> float:
    """Mean NDCG with one relevant each: 1 / log2(rank + 1)."""
    found = (ranks > 0) & (ranks <= cutoff)
    return float(np.where(found, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0).mean())
