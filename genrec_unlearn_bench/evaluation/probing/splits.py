"""Labelled rows of a probe, and their random splits: disjoint in items and users, balanced within each level-1 code.

A probe that has seen an item (or a user) can recognise it again without knowing anything of the concept, and one that
has seen positives mostly in some categories can answer by category. Neither is possible here: no item and no user is
in two parts, and every part has as many positives as negatives of every level-1 code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable

_TRAIN, _VALIDATION, _TEST = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Rows:
    """n labelled rows for a probe, all [n].

    Attributes:
        places: Row of each in the array of states that is probed.
        labels: True where it belongs to the concept (or to the pseudo-concept of a control task).
        users: User of the row; rows of items alone have a number of their own.
        codes: Level-1 code of the item in the original table.
    """

    places: IntArray
    labels: BoolArray
    items: IntArray
    users: IntArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: IntArray | BoolArray) -> Rows:
        return Rows(self.places[index], self.labels[index], self.items[index], self.users[index], self.codes[index])


@dataclass(frozen=True, eq=False)
class ProbeSplit:
    """Indices of rows. In ``test`` a user has one row of a class at most, so that items are the only clusters there."""

    train: IntArray
    validation: IntArray
    test: IntArray


def split_rows(
    rows: Rows, generator: np.random.Generator, *, train: float, validation: float, minimum: int
) -> ProbeSplit:
    """One random split; ``train`` and ``validation`` are shares of the items.

    Items are divided first. Those with positives are dealt to the parts by share; the others follow them code by code,
    in proportion to the positives that each part got there, so that few positives stay without a match. Then users:
    test takes its rows first, validation comes next, train has what is left of other users. Whether a row is tested
    thus never depends on its user's rows of the other class. No part but train gets more than its share of the users
    who have positives, as users with many rows would otherwise leave none to train on.

    Raises NotMeasurable where a part has fewer than ``minimum`` rows of a class, or there is one class only.
    """
    positives = int(rows.labels.sum())
    if positives == 0 or positives == len(rows):
        raise NotMeasurable(f"a probe needs two classes, and all {len(rows)} examples are of one")
    part = _item_parts(rows, generator, (train, validation))[rows.items]
    shares = {_TEST: 1 - train - validation, _VALIDATION: validation}
    chosen: dict[int, IntArray] = {}
    free = np.ones(len(rows), dtype=np.bool_)
    for which, share in shares.items():
        candidates = np.flatnonzero((part == which) & free)
        candidates = candidates[_eligible(rows, candidates, share, generator)]
        if which == _TEST:
            own = rows.users[candidates] * 2 + rows.labels[candidates]
            candidates = candidates[rank_within(own, generator.random(len(candidates))) == 0]
        chosen[which] = candidates[_balanced(rows.subset(candidates), generator)]
        free &= ~np.isin(rows.users, rows.users[chosen[which]])
    rest = np.flatnonzero((part == _TRAIN) & free)
    chosen[_TRAIN] = rest[_balanced(rows.subset(rest), generator)]
    names = {_TRAIN: "train", _VALIDATION: "validation", _TEST: "test"}
    for which, name in names.items():
        found = len(chosen[which]) // 2
        if found < minimum:
            items, users = (len(np.unique(of[rows.labels])) for of in (rows.items, rows.users))
            raise NotMeasurable(
                f"{found} positives are left for {name} (at least {minimum} are needed) after a division by items and "
                f"users balanced by level-1 code: the {positives} positives are of {items} items and {users} users"
            )
    return ProbeSplit(chosen[_TRAIN], chosen[_VALIDATION], chosen[_TEST])


def _item_parts(rows: Rows, generator: np.random.Generator, shares: tuple[float, float]) -> IntArray:
    """[largest item + 1] the part of each item; -1 for those without a row."""
    size = int(rows.items.max()) + 1
    parts = np.full(size, -1, dtype=np.int64)
    leading = np.unique(rows.items[rows.labels])
    bounds = np.cumsum(shares)
    # Cut by count, so that a small concept has items in every part.
    dealt = (generator.permutation(len(leading)) + 0.5) / len(leading)
    parts[leading] = np.searchsorted(bounds, dealt)

    codes = int(rows.codes.max()) + 1
    masses = np.zeros((codes, 3))
    np.add.at(masses, (rows.codes[rows.labels], parts[rows.items[rows.labels]]), 1.0)
    masses[masses.sum(axis=1) == 0] = (*shares, 1 - sum(shares))
    steps = np.cumsum(masses / masses.sum(axis=1, keepdims=True), axis=1)[:, :2]

    code_of = np.full(size, -1, dtype=np.int64)
    code_of[rows.items] = rows.codes
    following = np.setdiff1d(np.unique(rows.items), leading)
    own = code_of[following]
    place = (rank_within(own, generator.random(len(following))) + generator.random(codes)[own]) / np.bincount(
        own, minlength=codes
    )[own]
    parts[following] = (place[:, None] > steps[own]).sum(axis=1)
    return parts


def _eligible(rows: Rows, candidates: IntArray, share: float, generator: np.random.Generator) -> BoolArray:
    """Mask of the rows that a part may take: all, or those of random users where it would take too many users."""
    marked = rows.labels[candidates]
    wanted = len(np.unique(rows.users[candidates][marked]))
    allowed = share * len(np.unique(rows.users[rows.labels]))
    if wanted <= allowed:
        return np.ones(len(candidates), dtype=np.bool_)
    users, index = np.unique(rows.users[candidates], return_inverse=True)
    return np.asarray((generator.random(len(users)) < allowed / wanted)[index], dtype=np.bool_)


def _balanced(rows: Rows, generator: np.random.Generator) -> BoolArray:
    """As many positives as negatives of every code, drawn at random."""
    if not len(rows):
        return np.zeros(0, dtype=np.bool_)
    size = int(rows.codes.max()) + 1
    quota = np.minimum(*(np.bincount(rows.codes[side], minlength=size) for side in (rows.labels, ~rows.labels)))
    rank = rank_within(rows.codes * 2 + rows.labels, generator.random(len(rows)))
    return np.asarray(rank < quota[rows.codes], dtype=np.bool_)


def rank_within(groups: IntArray, keys: NDArray[np.float64]) -> IntArray:
    """[n] place of each row among those of its group, from 0, by ascending key."""
    order = np.lexsort((keys, groups))
    sorted_groups = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_groups[1:] != sorted_groups[:-1]])[: len(groups)])
    first = np.repeat(starts, np.diff(np.append(starts, len(groups))))
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - first
    return ranks
