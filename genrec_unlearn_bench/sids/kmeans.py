"""K-means for codebooks: without empty codewords, with bounded cluster sizes, and level by level on residuals.

The Lloyd step is ours: scikit-learn (whose k-means++ seeds it) adds up its centres by thread, under a lock, so that the
last bits depend on the machine's load; and with exact float64 means a point alone in its cluster leaves a residual of
exactly zero. Residual k-means needs no training; GRID uses it as its default and finds it about as good as RQ-VAE."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.table import FloatArray, SidTable, nearest, squared_distances

_CHUNK = 65_536
_CANDIDATES = 64
"""Points looked at for each codeword that is to be moved, worst first."""
_SPARE_NOISE = 0.01
"""Spread of spare codewords around the points they are put beside, as a share of the data's scale."""


def kmeans(points: FloatArray, codes: int, *, iterations: int, rng: np.random.Generator, scale: float) -> FloatArray:
    """Fit ``codes`` codewords [codes, D] to points [n, D], n >= 1.

    With at least as many distinct points as codes, every codeword ends up nearest to some point. With fewer, each
    distinct point becomes a codeword and the spare ones are put close beside random points, where they are free for
    later reassignment and never the nearest of their own point; how far that is, ``scale`` says, the root mean square
    of the data as a whole. Lloyd steps end where the assignment settles, at the latest after ``iterations``.
    """
    distinct = np.unique(points, axis=0)
    if len(distinct) <= codes:
        beside = distinct[rng.integers(len(distinct), size=codes - len(distinct))]
        noise = rng.standard_normal(beside.shape) * (_SPARE_NOISE * (scale if scale > 0 else 1.0))
        return np.concatenate([distinct, beside + noise]).astype(np.float32)
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
        # An empty cluster keeps its codeword.
        means = _cluster_means(points.astype(np.float64), labels, counts)
        words = np.where((counts > 0)[:, None], means, words).astype(np.float32)
        _fill(words, points, counts == 0, errors)
    # Lloyd may stop on a step that emptied a cluster: re-seed until none is empty.
    for _ in range(codes):
        labels, errors = _assign(points, words)
        counts = np.bincount(labels, minlength=codes)
        if counts.all():
            break
        _fill(words, points, counts == 0, errors)
    return words


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


def _cluster_means(points: NDArray[np.float64], labels: IntArray, counts: IntArray) -> NDArray[np.float64]:
    """[K, D] mean of the points [n, D] of each cluster, 0 for an empty one; ``counts`` [K] are the clusters' sizes."""
    from scipy.sparse import csr_array

    rows = np.arange(len(points))
    member = csr_array((np.ones(len(points)), (labels, rows)), shape=(len(counts), len(points)))
    return np.asarray(member @ points) / np.maximum(counts, 1)[:, None]


def _fill(words: FloatArray, points: FloatArray, empty: NDArray[np.bool_], errors: FloatArray) -> None:
    """Put every empty codeword on one of the worst-quantised points, in place."""
    missing = np.flatnonzero(empty)
    if missing.size:
        chosen = worst_quantised(points, errors, len(missing))
        words[missing[: len(chosen)]] = points[chosen]


def balanced_clusters(
    points: FloatArray, clusters: int, *, lower: int, upper: int, iterations: int, rng: np.random.Generator
) -> IntArray:
    """[n] cluster of each point [n, D] (LETTER); every cluster holds ``lower`` to ``upper`` of them.

    The assignment of a Lloyd step is solved exactly, as a transport of points to places: every cluster offers ``upper``
    places, its first ``lower`` ones so cheap that all of them are taken.
    """
    from sklearn.cluster import kmeans_plusplus

    places = points.astype(np.float64)
    centres, _ = kmeans_plusplus(places, clusters, random_state=int(rng.integers(2**31)))
    labels = np.full(len(points), -1, dtype=np.int64)
    for _ in range(iterations):
        fresh = balanced_assignment(squared_distances(places, centres), lower=lower, upper=upper)
        if np.array_equal(fresh, labels):
            break
        labels = fresh
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, places)
        centres = sums / np.bincount(labels, minlength=clusters)[:, None]
    return labels


def balanced_assignment(distances: FloatArray, *, lower: int, upper: int) -> IntArray:
    """[n] column of each row of distances [n, C], with the least sum, each having ``lower`` to ``upper`` rows."""
    from scipy.optimize import linear_sum_assignment

    clusters = distances.shape[1]
    cost = np.repeat(distances.astype(np.float64), upper, axis=1)
    # More than any change of the other assignments could win back, so leaving such a place free never pays.
    bonus = 2 * len(distances) * (float(distances.max(initial=0.0)) + 1)
    cost[:, np.tile(np.arange(upper) < lower, clusters)] -= bonus
    _, chosen = linear_sum_assignment(cost)
    return np.asarray(chosen // upper, dtype=np.int64)


def project(features: FloatArray, dim: int, fit: BoolArray) -> FloatArray:
    """Principal components [N, min(dim, D, rows fitted)] of features [N, D], or the features where D <= dim.

    Fitted on the marked rows. The exact eigen-decomposition is used, with each component's largest loading positive,
    so there is nothing random in it.
    """
    if features.shape[1] <= dim:
        return features
    from sklearn.decomposition import PCA

    pca = PCA(n_components=min(dim, int(fit.sum())), svd_solver="covariance_eigh")
    pca.fit(features if fit.all() else features[fit])
    return np.ascontiguousarray(pca.transform(features), dtype=np.float32)


def residual_kmeans(latents: FloatArray, config: SidConfig, *, seed: int, progress: Progress) -> tuple[FloatArray, ...]:
    """Fit ``config.levels`` codebooks [codes, D] to latents [n, D], each to the residuals of the one before."""
    residual = latents.astype(np.float64)
    scale = float(np.sqrt((residual**2).mean()))
    books = []
    for level in progress.track("residual k-means", range(config.levels), total=config.levels):
        rng = numpy_generator(seed, "sids", "kmeans", level)
        points = residual.astype(np.float32)
        words = kmeans(points, config.codes, iterations=config.kmeans_iterations, rng=rng, scale=scale)
        books.append(words)
        exact = words.astype(np.float64)
        residual = residual - exact[nearest(residual, exact)]
        progress.log("sids.kmeans", level + 1, {"quantisation_error": float((residual**2).sum(1).mean())})
    return tuple(books)


def surrogate_codebooks(table: SidTable, features: FloatArray) -> SidTable:
    """Fit codebooks to a table's own codes, for methods that need distances (docs/methods.md, R20).

    This is ours, not the tokenizer's: level by level, a code's centroid is the mean of what the levels before it left
    of the features [N, D] of its items. An item's own code need not be the nearest one. Codes without items lie
    further from every residual than any used one does, so nothing is drawn to them. A tree's ordinals and end have no
    centroid. Raises DataFault for features that are all zero, as items without texts have.
    """
    if not features.any():
        hint = "choose a method that moves no semantic IDs, such as tracer-no-reassignment"
        raise DataFault("the items have no texts that distances could be measured by", hint=hint)
    residual = features.astype(np.float64)
    books = []
    for level in range(table.quantised_levels):
        present = table.quantised_codes[:, level] >= 0
        codes, left = table.quantised_codes[present, level], residual[present]
        counts = np.bincount(codes, minlength=table.quantised_sizes[level])
        words = _cluster_means(left, codes, counts)
        # A mean is no longer than the longest residual R, so used centroids are within 2 R of every residual; a
        # codeword of length 4 R is at least 3 R away.
        words[counts == 0] = 0.0
        words[counts == 0, 0] = 4.0 * (float(np.sqrt((left**2).sum(1).max(initial=0.0))) or 1.0)
        books.append(words.astype(np.float32))
        residual[present] -= books[-1].astype(np.float64)[codes]
    return replace(table, codebooks=tuple(books), latents=np.ascontiguousarray(features, dtype=np.float32))
