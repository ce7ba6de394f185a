"""Cosine between the text of what is recommended and the text of the target."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.ranking import FloatArray, UserBlock, user_mean

CHUNK = 2048
"""Lists compared at a time: ten rows of features each are held in memory."""

_COLUMNS = {
    "similarity.first": "first_similarity",
    "similarity.mean@10": "mean_similarity",
    "similarity.first.scrubbed": "first_similarity_scrubbed",
    "similarity.mean@10.scrubbed": "mean_similarity_scrubbed",
}
"""Metric -> column of the per-user table."""


def list_similarity(lists: IntArray, targets: IntArray, features: NDArray[np.float32]) -> tuple[FloatArray, FloatArray]:
    """Cosine of each list's first item, and the mean over its items, with the target: two [M] float64.

    Places without an item (-1) and items whose feature row is zero (no text) are left out of the mean. NaN where
    nothing is left, or where the target has no text.

    Args:
        lists: [M, k] item ids, -1 at empty places.
        targets: [M].
        features: [N, D]; rows need not have unit length.
    """
    first = np.full(len(lists), np.nan)
    mean = np.full(len(lists), np.nan)
    if lists.shape[1] == 0:
        return first, mean
    norms = _norms(features, lists, targets)
    for start in range(0, len(lists), CHUNK):
        rows = slice(start, start + CHUNK)
        items, wanted = lists[rows], targets[rows]
        known = np.where(items >= 0, items, 0)
        products = np.einsum("mkd,md->mk", features[known].astype(np.float64), features[wanted].astype(np.float64))
        scale = norms[known] * norms[wanted][:, None]
        valid = (items >= 0) & (scale > 0)
        cosines = np.clip(products / np.where(valid, scale, 1.0), -1.0, 1.0)
        first[rows] = np.where(valid[:, 0], cosines[:, 0], np.nan)
        count = valid.sum(axis=1)
        total = np.where(valid, cosines, 0.0).sum(axis=1)
        mean[rows] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return first, mean


def _norms(features: NDArray[np.float32], lists: IntArray, targets: IntArray) -> FloatArray:
    """[N] lengths of the rows that are looked at, 0 elsewhere: the lists of a large catalogue name few of its items."""
    used = np.zeros(len(features), dtype=np.bool_)
    used[lists[lists >= 0]] = True
    used[targets] = True
    rows = np.flatnonzero(used)
    out = np.zeros(len(features))
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        out[part] = np.linalg.norm(features[part].astype(np.float64), axis=1)
    return out


def similarity_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    empty = "no list with an item and a target that both have a text"
    return [
        user_mean(name, block.group, block.numbers(column), beam=block.beam, empty=empty)
        for block in blocks
        for name, column in _COLUMNS.items()
    ]
