"""K-means that never leaves a codeword empty: k-means++ seeding, Lloyd, re-seeding at the worst-quantised points.

Seeding is scikit-learn's. The Lloyd step is ours for two reasons: scikit-learn adds up its centres by thread, under a
lock, so that the last bits depend on the machine's load; and centres are exact float64 means here, so that a point
alone in its cluster leaves a residual of exactly zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["kmeans", "worst_quantised"]

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]

_CHUNK = 65_536
_CANDIDATES = 64
"""Points looked at for each codeword that is to be moved, worst first."""
_SPARE_NOISE = 0.01
"""Spread of spare codewords around the points they are put beside, as a share of the data's scale."""


def kmeans(points: FloatArray, codes: int, *, iterations: int, rng: np.random.Generator, scale: float) -> FloatArray:
    """``codes`` codewords [codes, D] for points [n, D], n >= 1.

    With at least as many distinct points as codes, every codeword ends up nearest to some point. With fewer, each
    distinct point becomes a codeword and the spare ones are put close beside random points, where they are free for
    later reassignment and never the nearest of their own point.

    Args:
        iterations: Largest number of Lloyd steps; fewer where the assignment settles.
        scale: Root mean square of the data as a whole, which says how far "close beside" is.
    """
    distinct = np.unique(points, axis=0)
    if len(distinct) <= codes:
        return _with_spares(distinct, codes, rng, scale)
    from sklearn.cluster import kmeans_plusplus

    words, _ = kmeans_plusplus(points, codes, random_state=int(rng.integers(2**31)))
    words = np.asarray(words, dtype=np.float32)
    labels = np.full(len(points), -1, dtype=np.int64)
    for _ in range(iterations):
        fresh, errors = _assign(points, words)
        counts = np.bincount(fresh, minlength=codes)
        if counts.all() and np.array_equal(fresh, labels):
            break
        labels = fresh
        words = _centres(points, labels, counts, words)
        _fill(words, points, counts == 0, errors)
    return _without_empty(points, words)


def worst_quantised(points: FloatArray, errors: NDArray[np.float32], count: int) -> IntArray:
    """Rows of up to ``count`` points to put free codewords on: the one with the largest squared error, over and over.

    Each choice lowers the errors of the points around it, so that codewords do not all go to one far-off cluster, and
    equal points are never chosen twice. Fewer than ``count`` come back where no error is left.
    """
    candidates = np.argsort(-errors, kind="stable")[: _CANDIDATES * count]
    places = points[candidates]
    left = errors[candidates].copy()
    chosen: list[int] = []
    while len(chosen) < count and left.max(initial=0.0) > 0:
        worst = int(left.argmax())
        chosen.append(int(candidates[worst]))
        left = np.minimum(left, ((places - places[worst]) ** 2).sum(1))
        left[worst] = 0.0
    return np.array(chosen, dtype=np.int64)


def _assign(points: FloatArray, words: FloatArray) -> tuple[IntArray, FloatArray]:
    """Nearest codeword and squared error of each point, [n] each."""
    labels = np.empty(len(points), dtype=np.int64)
    errors = np.empty(len(points), dtype=np.float32)
    norms = (words**2).sum(1)
    for start in range(0, len(points), _CHUNK):
        chunk = points[start : start + _CHUNK]
        partial = norms[None, :] - 2 * chunk @ words.T
        nearest = partial.argmin(axis=1)
        labels[start : start + _CHUNK] = nearest
        errors[start : start + _CHUNK] = ((chunk - words[nearest]) ** 2).sum(1)
    return labels, errors


def _centres(points: FloatArray, labels: IntArray, counts: IntArray, words: FloatArray) -> FloatArray:
    """Float64 means by cluster, as float32; an empty cluster keeps its codeword."""
    from scipy.sparse import csr_array

    rows = np.arange(len(points))
    member = csr_array((np.ones(len(points)), (labels, rows)), shape=(len(counts), len(points)))
    means = (member @ points.astype(np.float64)) / np.maximum(counts, 1)[:, None]
    return np.where((counts > 0)[:, None], means, words).astype(np.float32)


def _fill(words: FloatArray, points: FloatArray, empty: NDArray[np.bool_], errors: FloatArray) -> None:
    """Put every empty codeword on one of the worst-quantised points, in place."""
    missing = np.flatnonzero(empty)
    if missing.size:
        chosen = worst_quantised(points, errors, len(missing))
        words[missing[: len(chosen)]] = points[chosen]


def _without_empty(points: FloatArray, words: FloatArray) -> FloatArray:
    """Lloyd may stop on a step that emptied a cluster: re-seed until none is empty."""
    codes = len(words)
    for _ in range(codes):
        labels, errors = _assign(points, words)
        counts = np.bincount(labels, minlength=codes)
        if counts.all():
            break
        _fill(words, points, counts == 0, errors)
    return words


def _with_spares(distinct: FloatArray, codes: int, rng: np.random.Generator, scale: float) -> FloatArray:
    spares = codes - len(distinct)
    beside = distinct[rng.integers(len(distinct), size=spares)]
    width = distinct.shape[1]
    noise = rng.standard_normal((spares, width)) * (_SPARE_NOISE * (scale if scale > 0 else 1.0))
    return np.concatenate([distinct, beside + noise]).astype(np.float32)
