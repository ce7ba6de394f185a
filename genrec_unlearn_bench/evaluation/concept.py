"""Which places of a list or a history hold something that is to be forgotten."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, IntArray, among
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit

__all__ = ["concept_places"]


def concept_places(split: ForgetSplit, items: IntArray, users: IntArray) -> BoolArray:
    """[B, T] True where ``items`` [B, T] holds a concept item; negative ids (padding, empty places) are False.

    For interaction requests the items stay in the catalogue, so that "concept item" means: an item of one of this
    user's (``users`` [B]) own forgotten pairs.
    """
    real = items >= 0
    if split.kind is ConceptKind.INTERACTION:
        width = max(len(split.items), 1)
        codes = users[:, None] * width + items
        return np.asarray(real & among(codes, np.sort(split.pairs[:, 0] * width + split.pairs[:, 1])), dtype=np.bool_)
    return np.asarray(real & split.items[np.where(real, items, 0)], dtype=np.bool_)
