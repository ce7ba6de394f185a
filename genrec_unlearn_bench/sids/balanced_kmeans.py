"""K-means whose clusters have a least and a largest size (LETTER clusters each codebook with it).

The assignment of a Lloyd step is solved exactly, as a transport of points to places: every cluster offers as many
places as it may hold, and its first ``lower`` places are so cheap that all of them are taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.sids.residuals import squared_distances

__all__ = ["balanced_assignment", "balanced_clusters"]

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


def balanced_clusters(
    points: FloatArray, clusters: int, *, lower: int, upper: int, iterations: int, rng: np.random.Generator
) -> IntArray:
    """[n] cluster of each point [n, D]; every cluster holds ``lower`` to ``upper`` of them.

    Args:
        iterations: Largest number of Lloyd steps; fewer where the assignment settles.
        rng: Chooses the first centres (k-means++).

    Raises:
        ValueError: No clustering has these sizes.
    """
    from sklearn.cluster import kmeans_plusplus

    if not 0 < clusters * lower <= len(points) <= clusters * upper:
        raise ValueError(f"{len(points)} points do not fit {clusters} clusters of {lower} to {upper}")
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
    """[n] column of each row of distances [n, C], so that their sum is least and each column has ``lower`` to ``upper``
    rows."""
    from scipy.optimize import linear_sum_assignment

    clusters = distances.shape[1]
    cost = np.repeat(distances.astype(np.float64), upper, axis=1)
    # More than any change of the other assignments could win back, so leaving such a place free never pays.
    bonus = 2 * len(distances) * (float(distances.max(initial=0.0)) + 1)
    cost[:, np.tile(np.arange(upper) < lower, clusters)] -= bonus
    _, chosen = linear_sum_assignment(cost)
    return np.asarray(chosen // upper, dtype=np.int64)
