"""Seeded draws of concepts, vectorised.

Every draw uses ``Generator.random`` alone: it is the raw bit stream scaled to [0, 1), so that a draw stays the same
when NumPy changes how it samples from other distributions. A task's manifest must never change under one version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


class Target(NamedTuple):
    """The weight that a draw should have: ``share`` ± ``tolerance`` of ``total``."""

    total: int
    """Things outside the draw count here too."""
    share: float
    tolerance: float
    max_draws: int = 1
    """After so many draws the nearest one is taken."""


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


def draw_subset(weights: IntArray, size: int, target: Target, generator: np.random.Generator) -> Draw:
    """Draw uniform subsets of ``size`` things until one has the target weight; if none does, take the nearest.

    Accepting the first that fits leaves every fitting subset equally likely.

    ``weights``: [B] weight of each thing, such as the train targets of each brand.
    """
    batch = max(1, min(target.max_draws, _CELLS // max(len(weights), 1)))

    def proposals() -> Iterator[tuple[float, IntArray]]:
        for start in range(0, target.max_draws, batch):
            subsets = uniform_subsets(len(weights), size, min(batch, target.max_draws - start), generator)
            distances = np.abs(weights[subsets].sum(axis=1) / target.total - target.share)
            yield from zip(distances.tolist(), subsets, strict=True)

    return _first_within(proposals(), target)


def draw_from_top(
    scores: FloatArray,
    members: csr_matrix,
    weights: IntArray,
    target: Target,
    *,
    largest: float,
    generator: np.random.Generator,
) -> Draw:
    """Take values in falling order of their ``scores`` [V] until the items they cover have the target weight.

    A value is passed over if it weighs nothing, if its score is 0, if it alone weighs more than ``largest`` (a share),
    or if the items covered with it would weigh too much. Equal scores stand in random order; nothing else is random.

    Args:
        members: [N, V] 1 where an item has a value; an item may have many, and counts once.
        weights: [N] weight of each item, such as its train targets.
    """
    shuffled = np.argsort(generator.random(len(scores)), kind="stable")
    order = shuffled[np.argsort(-np.round(scores[shuffled], 9), kind="stable")]
    columns, own = members.tocsc(), members.T @ weights
    covered = np.zeros(len(weights), dtype=np.bool_)
    weight, chosen = 0, []
    for value in order[(scores[order] > 0) & (own[order] > 0) & (own[order] <= largest * target.total + _ROUNDING)]:
        items = columns.indices[columns.indptr[value] : columns.indptr[value + 1]]
        added = int(weights[items[~covered[items]]].sum())
        if added == 0 or weight + added > (target.share + target.tolerance + _ROUNDING) * target.total:
            continue
        covered[items] = True
        weight += added
        chosen.append(int(value))
        if weight >= target.share * target.total:
            break
    within = abs(weight / target.total - target.share) <= target.tolerance + _ROUNDING
    return Draw(np.asarray(sorted(chosen), dtype=np.int64), 1, within)


def draw_joined(
    candidates: IntArray,
    count: int,
    joined: Callable[[IntArray], IntArray],
    weights: IntArray,
    target: Target,
    generator: np.random.Generator,
) -> Draw:
    """Draw values of which an item may have several, until the items that they bring along have the target weight.

    The candidates are put in random order, and the first so many are taken whose items weigh nearest to the target (the
    fewer of two equally near). It is repeated while that lies outside the tolerance; at the end the nearest is taken.

    Args:
        candidates: [C] values that can be drawn, of ``count``; where there is none, nothing is chosen.
        joined: The position at which each of R items is brought along, given that of each value [count].
        weights: [R] weight of each item.
    """
    size = len(candidates)

    def proposals() -> Iterator[tuple[float, IntArray]]:
        for _ in range(target.max_draws if size else 0):
            order = candidates[np.argsort(generator.random(size), kind="stable")]
            positions = np.full(count, size, dtype=np.int64)
            positions[order] = np.arange(size, dtype=np.int64)
            yield _nearest_prefix(order, np.bincount(joined(positions), weights=weights, minlength=size + 1), target)

    return _first_within(proposals(), target)


def draw_stratified(weights: IntArray, strata: int, target: Target, generator: np.random.Generator) -> Draw:
    """Draw single things, equally many of each stratum of weight, until they have the target weight.

    Things of positive weight are ordered by weight (ties by position) and cut into ``strata`` parts of equal size. Each
    round takes one random thing of every stratum, in random order; the draw ends where the running share is nearest to
    the target. It is repeated while that lies outside the tolerance, as it can where single things are heavy.
    """
    order = np.flatnonzero(weights > 0)
    order = order[np.argsort(weights[order], kind="stable")]
    parts = np.array_split(order, min(strata, max(len(order), 1)))
    rounds = np.concatenate([np.arange(len(part)) for part in parts])

    def proposals() -> Iterator[tuple[float, IntArray]]:
        for _ in range(target.max_draws if len(order) else 0):
            shuffled = [part[np.argsort(generator.random(len(part)), kind="stable")] for part in parts]
            sequence = np.concatenate(shuffled)[np.lexsort((generator.random(len(order)), rounds))]
            yield _nearest_prefix(sequence, weights[sequence], target)

    return _first_within(proposals(), target)


def _nearest_prefix(sequence: IntArray, added: IntArray | FloatArray, target: Target) -> tuple[float, IntArray]:
    """(distance, beginning of the sequence) whose weight is nearest to the target; ``added``: by each of its places."""
    distance = np.abs(np.cumsum(added[: len(sequence)]) / target.total - target.share)
    end = int(np.argmin(distance))
    return float(distance[end]), sequence[: end + 1]


def _first_within(proposals: Iterator[tuple[float, IntArray]], target: Target) -> Draw:
    """The first of the proposals (distance, positions) within the tolerance, else the nearest, else nothing."""
    nearest, chosen, draws = np.inf, np.empty(0, dtype=np.int64), 0
    for distance, positions in proposals:
        draws += 1
        if distance < nearest:
            nearest, chosen = distance, np.sort(positions)
        if distance <= target.tolerance + _ROUNDING:
            return Draw(np.sort(positions), draws, within=True)
    return Draw(chosen, draws, within=False)
