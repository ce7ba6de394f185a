"""Rows of unit length, so that a dot product is a cosine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["unit_rows"]


def unit_rows(matrix: NDArray[Any]) -> NDArray[np.float32]:
    """[N, D] float32, each row divided by its length; rows shorter than 1e-12 become zero."""
    exact = np.asarray(matrix, dtype=np.float64)
    lengths = np.sqrt((exact * exact).sum(axis=1, keepdims=True))
    return np.where(lengths > 1e-12, exact / np.maximum(lengths, 1e-12), 0.0).astype(np.float32)
