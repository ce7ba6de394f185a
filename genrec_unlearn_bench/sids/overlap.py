"""Overlap of the semantic IDs of concept items with those of the retain items.

Three views, because one is not enough: in published indexes the pairwise overlap of brand items is at or below chance,
while most of their codes, and many of their two-code prefixes, are used by some retain item.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.sids.table import SidTable, prefix_ids

FloatArray = NDArray[np.float64]

_CELLS = 4_000_000
"""Random numbers drawn at once: draws are taken in chunks of about this many cells."""


class Overlap(StrictModel):
    """TRACER's Ω: the chance that a random concept item and a random retain item have the same code."""

    per_level: tuple[float, ...]
    """In [0, 1], every level, the collision ordinal included."""
    quantised: float
    """Mean over the quantised levels: the measurement. The ordinal is 0 for nearly all items, so its overlap is near 1
    and says little."""


class OverlapLift(StrictModel):
    """Ω against what random item sets of the same size have."""

    lift: float
    """Ω over the exact mean Ω of all item sets of that size; below 1: the concept overlaps less than chance has it."""
    null_low: float
    null_high: float
    """Central 95 % interval of the lift of random sets; a lift inside it is not distinguishable from chance."""


def level_overlaps(codes: IntArray, items: BoolArray) -> FloatArray:
    """[L] overlap of the marked items with the rest, by level, through code frequencies: ``<f_l, r_l>``.

    Equal to the pairwise definition (TRACER, eq. 12: Ω = E[ω(i, j)]; docs/methods.md, R21), in O(N L + L K).
    Padding (-1) is no code and overlaps with nothing. Raises ValueError where either side has no items.
    """
    forget, retain = _sides(codes, items)
    pairs = zip(_counts(codes, items), _counts(codes, ~items), strict=True)
    return np.array([float(one @ other) / (forget * retain) for one, other in pairs])


def overlap(table: SidTable, items: BoolArray) -> Overlap:
    """Ω of the concept items [N] (mask) with the retain items; ValueError where either side is empty."""
    depth = table.quantised_levels
    levels = level_overlaps(np.concatenate([table.quantised_codes, table.codes[:, depth:]], axis=1), items)
    return Overlap(per_level=tuple(float(x) for x in levels), quantised=float(levels[:depth].mean()))


def overlap_lift(codes: IntArray, items: BoolArray, *, draws: int = 200, seed: int) -> OverlapLift:
    """Ω of the marked items over the mean Ω of random item sets of the same size, on ``codes`` [N, L].

    The mean is exact, not sampled: over random sets, each ordered pair of different items is split with the same
    chance, so it is the share of ordered pairs of different items with equal codes. The draws give the interval alone.
    """
    forget, retain = _sides(codes, items)
    total = forget + retain
    value = float(level_overlaps(codes, items).mean())
    tallies = _counts(codes, np.ones(total, dtype=np.bool_))
    expected = float(np.mean([(t @ (t - 1)) / (total * (total - 1)) for t in tallies]))
    if expected == 0:
        # No two items share any code, so there is nothing to exceed.
        return OverlapLift(lift=1.0, null_low=1.0, null_high=1.0)
    null = _null_overlaps(codes, tallies, forget, draws, np.random.default_rng(seed)) / expected
    low, high = map(float, np.quantile(null, [0.025, 0.975]))
    return OverlapLift(lift=value / expected, null_low=low, null_high=high)


def prefix_sharing(codes: IntArray, items: BoolArray, depth: int = 2) -> float:
    """Share of the marked items whose first ``depth`` codes are those of some unmarked item too, in [0, 1]."""
    _sides(codes, items)
    ids = prefix_ids(codes[:, :depth])[:, -1]
    return float(np.isin(ids[items], ids[~items]).mean())


def token_coverage(codes: IntArray, items: BoolArray) -> tuple[float, ...]:
    """By level, the share of the marked items' distinct codes that some unmarked item uses too, in [0, 1]."""
    _sides(codes, items)
    shares = []
    for level in range(codes.shape[1]):
        used = np.unique(codes[items, level])
        used = used[used >= 0]
        shares.append(float(np.isin(used, codes[~items, level]).mean()) if used.size else 0.0)
    return tuple(shares)


def _null_overlaps(
    codes: IntArray, tallies: list[FloatArray], marked: int, draws: int, rng: np.random.Generator
) -> FloatArray:
    """[draws] mean overlap of random sets of ``marked`` items."""
    items = len(codes)
    out = np.empty(draws)
    chunk = max(1, _CELLS // items)
    for start in range(0, draws, chunk):
        count = min(chunk, draws - start)
        keys = rng.random((count, items), dtype=np.float32)
        chosen = np.argpartition(keys, marked - 1, axis=1)[:, :marked]
        value = np.zeros(count)
        for level, tally in enumerate(tallies):
            size = len(tally)
            # Padding goes into a last bin of its own, which is cut off.
            column = np.where(codes[:, level] < 0, size, codes[:, level])
            flat = column[chosen] + np.arange(count)[:, None] * (size + 1)
            drawn = np.bincount(flat.ravel(), minlength=count * (size + 1)).reshape(count, size + 1)[:, :size]
            value += (drawn * (tally[None, :] - drawn)).sum(1) / (marked * (items - marked))
        out[start : start + count] = value / len(tallies)
    return out


def _sides(codes: IntArray, items: BoolArray) -> tuple[int, int]:
    forget = int(items.sum())
    if not 0 < forget < len(items):
        raise ValueError(f"overlap needs items on both sides; {forget} of {len(items)} are marked")
    return forget, len(items) - forget


def _counts(codes: IntArray, items: BoolArray) -> list[FloatArray]:
    """By level: how many of the marked items have each code."""
    sizes = codes.max(axis=0) + 1
    columns = codes[items].T
    return [
        np.bincount(column[column >= 0], minlength=size).astype(np.float64)
        for column, size in zip(columns, sizes, strict=True)
    ]
