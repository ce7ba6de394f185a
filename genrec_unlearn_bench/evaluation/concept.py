"""Concept items in lists and histories, and the concept rate: in the served SID space, and through the original one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray, among
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import WIDE_BEAM, UserBlock, rank_metric, user_mean

_UNMEASURED = "not decoded in the original SID space: no test examples, no original table, or another tokenizer's SIDs"


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


def concept_rate_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    """CR@10 of every block, and leakage through the original SIDs on the forget group at the widest beam."""
    out = []
    for block in blocks:
        rate = concept_share(block.integers("concept_in_list"), block.integers("n_list"))
        out.append(user_mean("concept-rate@10", block.group, rate, beam=block.beam, empty="no list with an item"))
        if block.group is not Group.FORGET or block.beam != WIDE_BEAM:
            continue
        ranks = block.integers("original_rank")
        hits = np.where(ranks >= 0, rank_metric("hr@10").of(ranks), np.nan)
        leaked = concept_share(block.integers("original_concept_in_list"), block.integers("original_n_list"))
        for name, values in (("original-sids.hr@10", hits), ("original-sids.concept-rate@10", leaked)):
            out.append(user_mean(name, block.group, values, beam=block.beam, empty=_UNMEASURED))
    return out


def concept_share(marked: NDArray[np.int64], filled: NDArray[np.int64]) -> NDArray[np.float64]:
    """[M] marked / filled; NaN for an empty or absent (-1) list."""
    return np.where(filled > 0, marked / np.maximum(filled, 1), np.nan)
