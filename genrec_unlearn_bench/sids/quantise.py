"""Quantise item features to a table of semantic IDs, and resolve collisions.

Two steps resolve them, each optional. MiniOneRec and LETTER re-encode colliding items on the last codebook with
balanced (Sinkhorn) assignments and keep what still collides; TIGER and GRID append a level that counts the items of a
collision group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.kmeans import project, residual_kmeans
from genrec_unlearn_bench.sids.table import (
    FloatArray,
    SidTable,
    colliding_groups,
    nearest_codes,
    ordinals,
    prefix_ids,
    squared_distances,
)

if TYPE_CHECKING:
    from genrec_unlearn_bench.sids.rqvae import ExtraTerms

_ROWS = 32_768
"""Colliding items balanced at once: each has a row of distances and a row of its group's plan, in float64."""


def resolve_collisions(table: SidTable, config: SidConfig, *, progress: Progress) -> SidTable:
    """Re-encode every colliding group on the last codebook, for up to ``config.resolve_rounds`` rounds.

    Within a group a balanced plan over the group's distances shares out the codebook, so members move apart, not always
    to their nearest codeword. Items with equal latents have equal plans and stay together. The state with the fewest
    excess items is kept. The version stays: this is still the tokenizer's output.

    Deviation: both official codes take each row's largest entry of the plan. A group is much smaller than the codebook,
    so every row owns about K / n codewords whole and its largest entries are equal up to rounding: far codewords win as
    often as near ones, and the quantisation error of the last level doubles or worse. Here an item takes the nearest
    codeword among those it holds the largest share of and no other item with its prefix has.
    """
    if table.codebooks is None or table.latents is None or not config.resolve_rounds or not len(table):
        return table
    last = table.quantised_levels - 1
    words = table.codebooks[last].astype(np.float64)
    residual = table.latents.astype(np.float64)
    for level, book in enumerate(table.codebooks[:last]):
        residual -= book.astype(np.float64)[table.codes[:, level]]
    parents = prefix_ids(table.codes[:, :last])[:, -1] if last else np.zeros(len(table), dtype=np.int64)
    codes = table.codes.copy()
    best, fewest = codes.copy(), _excess(codes)
    for _ in progress.track("collisions", range(config.resolve_rounds), total=config.resolve_rounds):
        groups = colliding_groups(codes)
        if not groups:
            break
        before = codes[:, last].copy()
        # [P, K] whether any item with a prefix has a code.
        taken = np.zeros((int(parents.max()) + 1, len(words)), dtype=np.bool_)
        taken[parents, before] = True
        for members in _blocks(groups):
            distances = squared_distances(residual[members.ravel()], words).reshape(*members.shape, -1)
            first = members[:, 0]
            free = ~taken[parents[first]]
            free[np.arange(len(first)), before[first]] = True
            codes[members, last] = _balanced(distances, free, config)
        excess = _excess(codes)
        if excess < fewest:
            best, fewest = codes.copy(), excess
        if np.array_equal(before, codes[:, last]):
            break
    return replace(table, codes=best)


def _excess(codes: IntArray) -> int:
    """Items beyond the first of every group."""
    return len(codes) - (int(prefix_ids(codes)[:, -1].max()) + 1) if len(codes) else 0


def _blocks(groups: list[IntArray]) -> Iterator[IntArray]:
    """Groups of equal size stacked, [G, n] each, so that one call balances them all; not too many items at once."""
    for size, alike in groupby(sorted(groups, key=len), len):
        members = np.stack(list(alike))
        step = max(1, _ROWS // size)
        for start in range(0, len(members), step):
            yield members[start : start + step]


def _balanced(distances: NDArray[np.float32], free: BoolArray, config: SidConfig) -> IntArray:
    """Codes [G, n] of distances [G, n, K]; ``free`` [G, K] says which codes a group may take."""
    import torch

    from genrec_unlearn_bench.sids.rqvae import centred, log_plan

    exact = torch.from_numpy(distances).double()
    plan = log_plan(centred(exact), epsilon=config.sinkhorn_epsilon, iterations=config.sinkhorn_iterations)
    largest = plan.topk(2, dim=-2).values
    # Strictly the largest: items with equal latents own nothing, and so stay together.
    owned = (plan == largest[..., :1, :]) & (largest[..., :1, :] > largest[..., 1:, :])
    chosen = plan.argmax(dim=-1)
    for allowed in (owned, owned & torch.from_numpy(free)[:, None, :]):
        near = torch.where(allowed, exact, torch.inf).argmin(dim=-1)
        chosen = torch.where(allowed.any(dim=-1), near, chosen)
    return chosen.numpy()


def quantise(
    features: FloatArray,
    config: SidConfig,
    *,
    seed: int,
    device: str,
    progress: Progress,
    fit_rows: BoolArray | None = None,
    extra: ExtraTerms | None = None,
) -> SidTable:
    """Give N items their semantic IDs, version 0, with codebooks and latents.

    Codes are the nearest codewords of the residuals, exactly as ``SidTable.distances`` measures them, except on the
    last codebook where ``config.resolve_rounds`` moved colliding items apart. With ``config.collision_token`` one more
    level makes every SID unique.

    Args:
        features: [N, D], finite.
        device: Where an RQ-VAE is trained; residual k-means runs on the CPU.
        fit_rows: [N] rows the quantiser is fitted on (an oracle may not see concept items); all rows are encoded.
        extra: Further terms of the RQ-VAE's loss.

    Raises:
        DataFault: Features that are not finite, or fewer than two rows to fit on.
        BenchError: The RQ-VAE diverged.
    """
    features = np.ascontiguousarray(features, dtype=np.float32)
    fit = np.ones(len(features), dtype=bool) if fit_rows is None else fit_rows
    check_features(features, fit)
    if config.quantiser == "rkmeans":
        latents = project(features, config.dim, fit)
        books = residual_kmeans(latents[fit], config, seed=seed, progress=progress)
    else:
        import torch

        from genrec_unlearn_bench.sids.rqvae import fit_rqvae

        model = fit_rqvae(features, config, fit=fit, seed=seed, device=device, progress=progress, extra=extra)
        latents, books = model.outcome(torch.from_numpy(features).to(device))
    table = SidTable(
        codes=nearest_codes(latents, books),
        level_sizes=(config.codes,) * config.levels,
        quantised_levels=config.levels,
        codebooks=books,
        latents=latents,
    )
    table = resolve_collisions(table, config, progress=progress)
    return with_ordinals(table, config.collision_slack) if config.collision_token else table


def with_ordinals(table: SidTable, slack: int) -> SidTable:
    """Append TIGER's last level, so that every item has its own SID: as many ordinals as the largest group has items,
    and ``slack`` for items that a method moves into an occupied prefix later."""
    places = ordinals(table.codes)
    codes = np.concatenate([table.codes, places[:, None]], axis=1)
    return replace(table, codes=codes, level_sizes=(*table.level_sizes, int(places.max(initial=0)) + 1 + slack))


def check_features(features: FloatArray, fit: BoolArray) -> None:
    """Raise DataFault unless features [N, D] are finite and two of their rows or more are marked by ``fit`` [N]."""
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise DataFault(
            f"the features of {bad.size} items are not finite numbers",
            where=f"item row {bad[0]}" + (" and others" if bad.size > 1 else ""),
            hint="choose another text encoder, or a lower rate `sasrec.lr` where they are SASRec's",
        )
    if not features.any():
        hint = "read semantic IDs from a file (--sids index.json), or take --backbone etegrec, which needs no texts"
        raise DataFault("the items have no texts that semantic IDs could be made from", hint=hint)
    if int(fit.sum()) < 2:
        raise DataFault(
            f"semantic IDs need at least two items to be fitted on, and there are {int(fit.sum())}",
            hint="check the dataset's filters and the task's concepts",
        )
