"""Planted hierarchical mixtures: features whose right semantic IDs are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Planted:
    """N items around coarse centres, each split into fine centres."""

    features: NDArray[np.float32]
    coarse: NDArray[np.int64]
    fine: NDArray[np.int64]


def planted(
    *, coarse: int = 8, fine: int = 4, items: int = 12, dim: int = 24, noise: float = 0.05, seed: int = 0
) -> Planted:
    """``coarse`` centres of length about 5, ``fine`` offsets of length about 1 shared by all, ``items`` points each."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((coarse, dim)) * 5 / np.sqrt(dim)
    offsets = rng.standard_normal((fine, dim)) / np.sqrt(dim)
    top = np.repeat(np.arange(coarse), fine * items)
    sub = np.tile(np.repeat(np.arange(fine), items), coarse)
    points = centres[top] + offsets[sub] + noise * rng.standard_normal((len(top), dim)) / np.sqrt(dim)
    order = rng.permutation(len(top))
    return Planted(points[order].astype(np.float32), top[order], sub[order])


def purity(codes: NDArray[np.int64], labels: NDArray[np.int64]) -> float:
    """Share of items that carry the commonest label of their code."""
    table = np.zeros((codes.max() + 1, labels.max() + 1), dtype=np.int64)
    np.add.at(table, (codes, labels), 1)
    return float(table.max(axis=1).sum() / len(codes))
