"""Tables from published indexes, and codebooks fitted to tables that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.table import SidTable

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


def from_index(
    codes: IntArray, level_sizes: Sequence[int] | None = None, *, quantised_levels: int | None = None
) -> SidTable:
    """Make a table without codebooks from codes [N, L]; -1 pads behind the last level of a shorter SID.

    Args:
        level_sizes: Codes of each level; largest code plus one where it is not given.
        quantised_levels: Levels that come from codebooks; all L of them where it is not given (MiniOneRec, LETTER
            keep their collisions and have no ordinal level).

    Raises:
        DataFault: Codes outside their level, or padding in front of a code.
    """
    codes = np.ascontiguousarray(codes, dtype=np.int64)
    if codes.ndim != 2 or not codes.size:
        raise DataFault(f"an index needs a row of codes for every item; got an array of shape {codes.shape}")
    largest = codes.max(axis=0)
    sizes = tuple(int(x) for x in (largest + 1 if level_sizes is None else level_sizes))
    if len(sizes) != codes.shape[1]:
        raise DataFault(f"the index has {codes.shape[1]} levels and {len(sizes)} level sizes")
    outside = (codes >= np.asarray(sizes)) | (codes < -1)
    late = (codes[:, :-1] < 0) & (codes[:, 1:] >= 0)
    bad = np.flatnonzero(outside.any(1) | late.any(1) | (codes[:, 0] < 0))
    if bad.size:
        raise DataFault(
            f"{bad.size} items have codes outside their level, or padding in front of a code",
            where=f"item row {bad[0]}: {codes[bad[0]].tolist()}",
            hint="check the index file and the level sizes",
        )
    return SidTable(codes, sizes, len(sizes) if quantised_levels is None else quantised_levels)


def surrogate_codebooks(table: SidTable, features: FloatArray) -> SidTable:
    """Fit codebooks to a table's own codes, for methods that need distances (docs/tracer.md, R20).

    This is ours, not the tokenizer's: level by level, a code's centroid is the mean of what the levels before it left
    of the features [N, D] of its items. An item's own code need not be the nearest one. Codes without items lie
    further from every residual than any used one does, so nothing is drawn to them. A tree's ordinals and end have no
    centroid.
    """
    if len(features) != len(table):
        raise ValueError(f"{len(features)} feature rows for {len(table)} items")
    residual = features.astype(np.float64)
    books = []
    for level in range(table.quantised_levels):
        codes = table.quantised_codes[:, level]
        present = codes >= 0
        books.append(_centroids(residual[present], codes[present], table.quantised_sizes[level]).astype(np.float32))
        residual[present] -= books[-1].astype(np.float64)[codes[present]]
    return replace(table, codebooks=tuple(books), latents=np.ascontiguousarray(features, dtype=np.float32))


def _centroids(residual: NDArray[np.float64], codes: IntArray, size: int) -> NDArray[np.float64]:
    from scipy.sparse import csr_array

    counts = np.bincount(codes, minlength=size)
    member = csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(size, len(codes)))
    words = np.asarray(member @ residual) / np.maximum(counts, 1)[:, None]
    # A mean is no longer than the longest residual R, so used centroids are within 2 R of every residual; a codeword
    # of length 4 R is at least 3 R away.
    radius = float(np.sqrt((residual**2).sum(1).max(initial=0.0))) or 1.0
    words[counts == 0] = 0.0
    words[counts == 0, 0] = 4.0 * radius
    return words
