"""Residual k-means: the tokenizer that needs no training.

GRID uses it as its default and finds it about as good as RQ-VAE. Features are projected to ``config.dim`` dimensions
by PCA, then each level is clustered on what the levels before it left over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.kmeans import kmeans
from genrec_unlearn_bench.sids.residuals import nearest

__all__ = ["fit_residual_kmeans", "project", "residual_kmeans"]

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


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


def residual_kmeans(
    latents: FloatArray,
    *,
    levels: int,
    codes: int,
    iterations: int,
    seed: int,
    progress: Progress,
) -> tuple[FloatArray, ...]:
    """``levels`` codebooks [codes, D] for latents [n, D], each fitted on the residuals of the one before."""
    residual = latents.astype(np.float64)
    scale = float(np.sqrt((residual**2).mean()))
    books = []
    for level in progress.track("residual k-means", range(levels), total=levels):
        rng = numpy_generator(seed, "sids", "kmeans", level)
        words = kmeans(residual.astype(np.float32), codes, iterations=iterations, rng=rng, scale=scale)
        books.append(words)
        exact = words.astype(np.float64)
        residual = residual - exact[nearest(residual, exact)]
        progress.log("sids.kmeans", level + 1, {"quantisation_error": float((residual**2).sum(1).mean())})
    return tuple(books)


def fit_residual_kmeans(
    features: FloatArray, config: SidConfig, *, fit: BoolArray, seed: int, progress: Progress
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Latents [N, D'] of all items, and the codebooks fitted on the marked ones."""
    latents = project(features, config.dim, fit)
    books = residual_kmeans(
        latents if fit.all() else latents[fit],
        levels=config.levels,
        codes=config.codes,
        iterations=config.kmeans_iterations,
        seed=seed,
        progress=progress,
    )
    return latents, books
