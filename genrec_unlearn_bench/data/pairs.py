"""(user, item) pairs as single numbers, and which of many pairs are among a few."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray

__all__ = ["among", "distinct"]


def among(codes: IntArray, few: IntArray) -> BoolArray:
    """[n] which codes are among ``few`` [m], ascending.

    As ``np.isin``, but without a sort of the codes: the log's pairs are many times as many as the drawn ones.
    """
    if not len(few):
        return np.zeros(len(codes), dtype=np.bool_)
    place = np.searchsorted(few, codes)
    np.minimum(place, len(few) - 1, out=place)
    return np.asarray(few[place] == codes, dtype=np.bool_)


def distinct(codes: IntArray) -> IntArray:
    """The different codes, ascending: ``np.unique``, whose hash table takes ten times as long where most differ."""
    ordered = np.sort(codes)
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]
