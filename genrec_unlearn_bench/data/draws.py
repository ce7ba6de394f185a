"""Seeded draws of concepts, vectorised.

Every draw uses ``Generator.random`` alone: it is the raw bit stream scaled to [0, 1), so that a draw stays the same
when NumPy changes how it samples from other distributions. A task's manifest must never change under one version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

FloatArray = NDArray[np.float64]

_CELLS = 1 << 20
"""Random numbers held at a time. Rows are filled one after the other, so the size of a batch changes no draw."""

_ROUNDING = 1e-12
"""So that a share of exactly 9 % lies within 10 % ± 1 %, although 0.10 - 0.09 > 0.01 in floating point."""


class Draw(NamedTuple):
    """Ascending positions [k], how many draws it took, and whether their weight lies within the tolerance."""

    chosen: IntArray
    draws: int
    within: bool


def rounded(share: float, count: int) -> int:
    """Round ``share`` of ``count`` half up, to one at least."""
    return max(1, int(np.floor(share * count + 0.5)))


def uniform_subsets(count: int, size: int, rows: int, generator: np.random.Generator) -> IntArray:
    """Draw [rows, size] subsets of ``range(count)``, each uniform among all of that size and independent."""
    keys = generator.random((rows, count))
    if size >= count:
        return np.tile(np.arange(count, dtype=np.int64), (rows, 1))
    return np.asarray(np.argpartition(keys, size - 1, axis=1)[:, :size], dtype=np.int64)


def draw_subset(
    weights: IntArray,
    size: int,
    *,
    total: int,
    target: float,
    tolerance: float,
    max_draws: int,
    generator: np.random.Generator,
) -> Draw:
    """Draw uniform subsets until one weighs ``target ± tolerance`` of ``total``; if none does, take the nearest.

    Accepting the first that fits leaves every fitting subset equally likely.

    Args:
        weights: [B] weight of each thing, such as the train targets of each brand.
        size: Things in a subset.
        total: What the shares refer to; things outside the draw count here too.
    """
    batch = max(1, min(max_draws, _CELLS // max(len(weights), 1)))
    nearest: tuple[float, IntArray] | None = None
    for start in range(0, max_draws, batch):
        subsets = uniform_subsets(len(weights), size, min(batch, max_draws - start), generator)
        distance = np.abs(weights[subsets].sum(axis=1) / total - target)
        row = int(np.argmin(distance))
        fitting = np.flatnonzero(distance <= tolerance + _ROUNDING)
        if len(fitting):
            return Draw(np.sort(subsets[fitting[0]]), start + int(fitting[0]) + 1, within=True)
        if nearest is None or distance[row] < nearest[0]:
            nearest = (float(distance[row]), subsets[row])
    if nearest is None:
        raise ValueError("max_draws must be positive")
    return Draw(np.sort(nearest[1]), max_draws, within=False)


def draw_from_top(
    scores: FloatArray,
    members: csr_matrix,
    weights: IntArray,
    *,
    total: int,
    target: float,
    tolerance: float,
    largest: float,
    generator: np.random.Generator,
) -> Draw:
    """Take values in falling order of their scores until the items they cover weigh ``target`` of ``total``.

    A value is passed over if it weighs nothing, if its score is 0, if it alone weighs more than ``largest``, or if the
    items covered with it would weigh more than ``target + tolerance``. Equal scores stand in random order, and nothing
    else is random.

    Args:
        scores: [V] score of each value.
        members: [N, V] 1 where an item has a value; an item may have many, and counts once.
        weights: [N] weight of each item, such as its train targets.
        total: What the shares refer to; items without a value count here too.
    """
    shuffled = np.argsort(generator.random(len(scores)), kind="stable")
    order = shuffled[np.argsort(-np.round(scores[shuffled], 9), kind="stable")]
    columns, own = members.tocsc(), members.T @ weights
    covered = np.zeros(len(weights), dtype=np.bool_)
    weight, chosen = 0, []
    for value in order[(scores[order] > 0) & (own[order] > 0) & (own[order] <= largest * total + _ROUNDING)]:
        items = columns.indices[columns.indptr[value] : columns.indptr[value + 1]]
        added = int(weights[items[~covered[items]]].sum())
        if added == 0 or weight + added > (target + tolerance + _ROUNDING) * total:
            continue
        covered[items] = True
        weight += added
        chosen.append(int(value))
        if weight >= target * total:
            break
    return Draw(np.asarray(sorted(chosen), dtype=np.int64), 1, abs(weight / total - target) <= tolerance + _ROUNDING)


def draw_joined(
    candidates: IntArray,
    count: int,
    joined: Callable[[IntArray], IntArray],
    weights: IntArray,
    *,
    total: int,
    target: float,
    tolerance: float,
    max_draws: int,
    generator: np.random.Generator,
) -> Draw:
    """Draw values of which an item may have several, until the items that they bring along weigh ``target``.

    The candidates are put in random order, and the first so many are taken whose items weigh nearest to ``target`` (the
    fewer of two equally near). It is repeated while that lies outside the tolerance; at the end the nearest is taken.

    Args:
        candidates: [C] values that can be drawn, of ``count``.
        joined: The position at which each of R items is brought along, given that of each value [count].
        weights: [R] weight of each item.
        total: What the shares refer to; items without a value count here too.

    Returns:
        Nothing chosen and not within the tolerance where there is no candidate.
    """
    nearest: tuple[float, IntArray] | None = None
    size = len(candidates)
    for draw in range(1, max_draws + 1 if size else 1):
        order = candidates[np.argsort(generator.random(size), kind="stable")]
        positions = np.full(count, size, dtype=np.int64)
        positions[order] = np.arange(size, dtype=np.int64)
        added = np.bincount(joined(positions), weights=weights, minlength=size + 1)[:size]
        distance = np.abs(np.cumsum(added) / total - target)
        end = int(np.argmin(distance))
        if distance[end] <= tolerance + _ROUNDING:
            return Draw(np.sort(order[: end + 1]), draw, within=True)
        if nearest is None or distance[end] < nearest[0]:
            nearest = (float(distance[end]), np.sort(order[: end + 1]))
    return Draw(np.empty(0, dtype=np.int64) if nearest is None else nearest[1], max_draws if size else 0, within=False)


def draw_stratified(
    weights: IntArray,
    *,
    strata: int,
    total: int,
    target: float,
    tolerance: float,
    max_draws: int,
    generator: np.random.Generator,
) -> Draw:
    """Draw single things, equally many of each stratum of weight, until they weigh ``target`` of ``total``.

    Things of positive weight are ordered by weight (ties by position) and cut into ``strata`` parts of equal size. Each
    round takes one random thing of every stratum, in random order; the draw ends where the running share is nearest to
    ``target``. It is repeated while that lies outside the tolerance, as it can where single things are heavy.
    """
    order = np.flatnonzero(weights > 0)
    order = order[np.argsort(weights[order], kind="stable")]
    parts = np.array_split(order, min(strata, max(len(order), 1)))
    nearest: tuple[float, IntArray] | None = None
    for draw in range(1, max_draws + 1):
        shuffled = [part[np.argsort(generator.random(len(part)), kind="stable")] for part in parts]
        rounds = np.concatenate([np.arange(len(part)) for part in parts])
        sequence = np.concatenate(shuffled)[np.lexsort((generator.random(len(order)), rounds))]
        distance = np.abs(np.cumsum(weights[sequence]) / total - target)
        if not len(distance):
            break
        end = int(np.argmin(distance))
        chosen = np.sort(sequence[: end + 1])
        if distance[end] <= tolerance + _ROUNDING:
            return Draw(chosen, draw, within=True)
        if nearest is None or distance[end] < nearest[0]:
            nearest = (float(distance[end]), chosen)
    if nearest is None:
        raise ValueError("nothing of positive weight to draw from")
    return Draw(nearest[1], max_draws, within=False)
