"""Arithmetic of residual quantisation: distances, codes and residuals.

``SidTable.distances`` and the quantisers share these functions, so that the codes a tokenizer gives are, to the bit,
the nearest codewords by the distances that a method sees later.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest", "nearest_codes", "residuals_after", "squared_distances"]

FloatArray = NDArray[np.float32]
CodeArray = NDArray[np.int64]

_CHUNK = 16_384
"""Rows encoded at once: 256 codewords then take 32 MiB of float64 distances."""


def squared_distances(residual: NDArray[np.float64], words: NDArray[np.float64]) -> FloatArray:
    """``||r_i - c_k||^2`` [n, K] for residuals [n, D] and codewords [K, D]; float64 inside, float32 outside."""
    squared = (residual**2).sum(1)[:, None] - 2 * residual @ words.T + (words**2).sum(1)[None, :]
    clipped: FloatArray = np.maximum(squared, 0).astype(np.float32)
    return clipped


def nearest(residual: NDArray[np.float64], words: NDArray[np.float64]) -> CodeArray:
    """[N] the nearest codeword [K, D] of each residual [N, D]; ties go to the lower code."""
    codes = np.empty(len(residual), dtype=np.int64)
    for start in range(0, len(residual), _CHUNK):
        rows = slice(start, start + _CHUNK)
        codes[rows] = squared_distances(residual[rows], words).argmin(axis=1)
    return codes


def nearest_codes(latents: FloatArray, codebooks: Sequence[FloatArray]) -> CodeArray:
    """Greedy residual quantisation (TRACER, eq. 2): [N, Q] codes of latents [N, D]."""
    codes = np.empty((len(latents), len(codebooks)), dtype=np.int64)
    residual = latents.astype(np.float64)
    for level, book in enumerate(codebooks):
        words = book.astype(np.float64)
        codes[:, level] = nearest(residual, words)
        residual -= words[codes[:, level]]
    return codes


def residuals_after(
    latents: FloatArray, codebooks: Sequence[FloatArray], codes: CodeArray, levels: int
) -> NDArray[np.float64]:
    """Subtract the codewords of the first ``levels`` levels from latents [N, D]: [N, D]."""
    residual = latents.astype(np.float64)
    for level in range(levels):
        residual -= codebooks[level].astype(np.float64)[codes[:, level]]
    return residual
