"""Items that share a semantic ID: spread over the last codebook, then told apart by an ordinal.

Two steps, each optional. MiniOneRec and LETTER re-encode colliding items on the last codebook with balanced (Sinkhorn)
assignments and keep what still collides; TIGER and GRID append a level that counts the items of a collision group.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.prefixes import colliding_groups, prefix_ids
from genrec_unlearn_bench.sids.residuals import residuals_after, squared_distances
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["ordinals", "resolve", "with_ordinals"]

IntArray = NDArray[np.int64]


def resolve(table: SidTable, config: SidConfig, *, progress: Progress) -> SidTable:
    """Up to ``config.resolve_rounds`` rounds of re-encoding every colliding group on the last codebook.

    Within a group the codes are drawn from a balanced plan over the group's distances, so its members move apart, not
    always to their nearest codeword: the last level's code of a moved item is no longer the argmin of
    ``table.distances``. Items with equal latents get equal plans and stay together (in MiniOneRec's published
    Industrial index 11 of the 15 groups left are items with equal titles). The state with the fewest excess items is
    kept, so the result never collides more than the input. The version stays: this is still the tokenizer's output.
    """
    if table.codebooks is None or table.latents is None or not config.resolve_rounds:
        return table
    last = table.quantised_levels - 1
    words = table.codebooks[last].astype(np.float64)
    residual = residuals_after(table.latents, table.codebooks, table.codes, last)
    codes = table.codes.copy()
    best, fewest = codes.copy(), _excess(codes)
    for _ in progress.track("collisions", range(config.resolve_rounds), total=config.resolve_rounds):
        groups = colliding_groups(codes)
        if not groups:
            break
        before = codes[:, last].copy()
        for members in _by_size(groups):
            distances = squared_distances(residual[members.ravel()], words)
            codes[members.ravel(), last] = _balanced(distances.reshape(*members.shape, -1), config)
        excess = _excess(codes)
        if excess < fewest:
            best, fewest = codes.copy(), excess
        if np.array_equal(before, codes[:, last]):
            break
    return replace(table, codes=best)


def ordinals(codes: IntArray) -> IntArray:
    """[N] position of each item among those with its codes, in order of item id; 0 where it is alone (TIGER, GRID)."""
    out = np.zeros(len(codes), dtype=np.int64)
    for group in colliding_groups(codes):
        out[group] = np.arange(len(group))
    return out


def with_ordinals(table: SidTable, slack: int) -> SidTable:
    """The table with TIGER's last level: largest group plus ``slack`` ordinals, so that every item has its own SID.

    Slack leaves room for items that a method moves into an occupied prefix later.
    """
    places = ordinals(table.codes)
    size = (int(places.max()) + 1 if len(places) else 1) + slack
    codes = np.concatenate([table.codes, places[:, None]], axis=1)
    return replace(table, codes=codes, level_sizes=(*table.level_sizes, size))


def _excess(codes: IntArray) -> int:
    """Items beyond the first of every group."""
    return len(codes) - (int(prefix_ids(codes)[:, -1].max()) + 1) if len(codes) else 0


def _by_size(groups: list[IntArray]) -> list[IntArray]:
    """Groups of equal size stacked, [G, n] each, so that one call balances them all."""
    sized: dict[int, list[IntArray]] = defaultdict(list)
    for group in groups:
        sized[len(group)].append(group)
    return [np.stack(sized[size]) for size in sorted(sized)]


def _balanced(distances: NDArray[np.float32], config: SidConfig) -> IntArray:
    """Codes [G * n] of distances [G, n, K]."""
    import torch

    from genrec_unlearn_bench.sids.sinkhorn import sinkhorn_codes

    chosen = sinkhorn_codes(
        torch.from_numpy(distances).double(), epsilon=config.sinkhorn_epsilon, iterations=config.sinkhorn_iterations
    )
    return chosen.flatten().numpy()
