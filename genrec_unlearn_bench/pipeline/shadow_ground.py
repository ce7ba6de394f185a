"""The ground under a shadow model: the run's, without the half of the forget set that this shadow never sees."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.pipeline.ground import Ground

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray

__all__ = ["ShadowGround", "forget_pairs", "pair_codes", "shadow_ground"]


@dataclass(frozen=True, eq=False)
class ShadowGround(Ground):
    """A ground some interactions of which nobody trains on.

    Attributes:
        left_out: Digest of these (user, item) pairs; part of the key of everything that is trained on the ground.
    """

    left_out: str = ""

    @property
    def examples_identity(self) -> dict[str, str]:
        return {**super().examples_identity, "left_out": self.left_out}


def pair_codes(ground: Ground, users: IntArray, items: IntArray) -> IntArray:
    """[M] one number for each (user, item) pair."""
    return np.asarray(users * max(len(ground.dataset.items), 1) + items, dtype=np.int64)


def forget_pairs(ground: Ground) -> IntArray:
    """[U] the distinct (user, item) pairs of the forget train examples, as codes, sorted."""
    forget = ground.split.train.forget
    return np.unique(pair_codes(ground, forget.users, forget.targets))


def shadow_ground(ground: Ground, left_out: IntArray) -> ShadowGround:
    """The ground without the pairs whose codes [P] are given.

    As with the holdout (``data.holdout``), their examples go from the train and validation parts, their events vanish
    from all histories there, and examples whose history becomes empty go with them. Nothing is measured on the test
    part, which stays. What the tokenizer was fitted on, and the item features, are the run's: a shadow says nothing
    about what semantic IDs give away.
    """
    dataset, split = ground.dataset, ground.split

    def marked(users: IntArray, items: IntArray) -> BoolArray:
        return np.asarray(np.isin(pair_codes(ground, users, items), left_out), dtype=np.bool_)

    def kept(examples: Examples) -> Examples:
        rest = examples.subset(~marked(examples.users, examples.targets))
        rest = rest.drop_events(marked(rest.event_users, rest.events))
        return rest.subset(rest.ends > rest.starts)

    def both(groups: Groups) -> Groups:
        return Groups(kept(groups.forget), kept(groups.retain))

    pairs = split.pairs[~marked(split.pairs[:, 0], split.pairs[:, 1])]
    digest = hashlib.blake2b(np.ascontiguousarray(np.sort(left_out), dtype="<i8").tobytes(), digest_size=16)
    return ShadowGround(
        replace(dataset, train=kept(dataset.train), valid=kept(dataset.valid)),
        replace(split, pairs=pairs, train=both(split.train), valid=both(split.valid)),
        ground.features,
        ground.stages,
        ground.holdout,
        left_out=digest.hexdigest(),
    )
