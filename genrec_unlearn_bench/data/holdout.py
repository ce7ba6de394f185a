"""Held-out interactions that no model trains on: the non-members of membership inference.

They are carved at random out of the train part, so time and concept match. Test interactions cannot take their place:
they are later in time, so they can be distinguished from training data without any memorisation.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray, Thinned, among, distinct
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.seeding import numpy_generator

SHARE = 0.1
"""Share of the (user, item) pairs of the train part. With 5 %, a brand task on Industrial would have 93 non-members of
its concept, and no false-positive rate of 1 % could be resolved."""


@dataclass(frozen=True, eq=False)
class Holdout:
    """The held-out interactions."""

    pairs: IntArray
    """[P, 2] the (user, item) pairs; no training sees one, as a target or in a history."""
    forget: Examples
    """Examples to be held against the forget set: those with a concept target. For interaction requests all of them, as
    the forget set is a random draw from the same interactions."""
    retain: Examples
    """The other ones (none for interaction requests: there it is ``forget`` that both sides are held against)."""
    digest: str
    """blake2b-128 over the pairs."""


class Thinning:
    """Takes pairs out of examples and histories: ``drawn``, sorted, as user * ``width`` + item."""

    def __init__(self, drawn: IntArray, width: int) -> None:
        self.drawn, self.width = drawn, width
        # The examples are kept along, so that no identity is used again.
        self._shared: dict[tuple[int, int], tuple[Examples, Thinned]] = {}

    @classmethod
    def of(cls, dataset: Dataset, share: float) -> Thinning:
        """Of the holdout, a random share of a dataset's train pairs."""
        train, width = dataset.train, max(len(dataset.items), 1)
        every = distinct(train.users * width + train.targets)
        generator = numpy_generator(0, "holdout", dataset.manifest.digest)
        return cls(np.sort(generator.choice(every, size=round(len(every) * share), replace=False)), width)

    def held(self, examples: Examples) -> BoolArray:
        """[M] examples whose own pair was drawn."""
        return among(examples.users * self.width + examples.targets, self.drawn)

    def thinned(self, examples: Examples) -> Examples:
        """The examples without drawn events in their histories; those whose history becomes empty go."""
        # Parts lie over the same events, which are worth thinning once: in a large log they are most of the memory.
        key = id(examples.events), id(examples.event_users)
        if key not in self._shared:
            drop = among(examples.event_users * self.width + examples.events, self.drawn)
            self._shared[key] = examples, Thinned.of(examples, drop)
        events = self._shared[key][1]
        kept = events.applied(examples)
        return kept.subset(kept.ends > kept.starts)

    def kept(self, examples: Examples) -> Examples:
        """The examples that were not drawn, thinned."""
        return self.thinned(examples.subset(~self.held(examples)))

    def dataset(self, dataset: Dataset) -> Dataset:
        """A dataset without the pairs in its train and validation parts."""
        return replace(dataset, train=self.kept(dataset.train), valid=self.kept(dataset.valid))

    def split(self, split: ForgetSplit) -> ForgetSplit:
        """A task without the pairs, but for its test part."""

        def both(groups: Groups) -> Groups:
            return Groups(self.kept(groups.forget), self.kept(groups.retain))

        pairs = split.pairs[~among(split.pairs[:, 0] * self.width + split.pairs[:, 1], self.drawn)]
        return replace(split, pairs=pairs, train=both(split.train), valid=both(split.valid))


def carve(dataset: Dataset, split: ForgetSplit, *, share: float = SHARE) -> tuple[Dataset, ForgetSplit, Holdout]:
    """Split the holdout off; returns the dataset and the task without it, and the holdout.

    The draw depends on the dataset alone, so that all its tasks, methods and seeds share one holdout and one original.
    Train examples of the drawn pairs go, and their events vanish from the histories of train and validation examples;
    examples whose history becomes empty go with them. Test examples keep theirs, as a deployed system would: but where
    interactions themselves are to be forgotten, the drawn ones among them are no longer to be forgotten.
    """
    thinning = Thinning.of(dataset, share)
    train, drawn, width = dataset.train, thinning.drawn, thinning.width
    single = split.kind is ConceptKind.INTERACTION
    away = thinning.thinned(train.subset(thinning.held(train)))
    concept = np.ones(len(away), dtype=np.bool_) if single else split.items[away.targets]
    test = split.test
    if single:
        test = replace(test, forget=test.forget.subset(~thinning.held(test.forget)))
    pairs = np.stack([drawn // width, drawn % width], axis=1)
    digest = hashlib.blake2b(np.ascontiguousarray(pairs, dtype="<i8").tobytes(), digest_size=16).hexdigest()
    held = Holdout(pairs, away.subset(concept), away.subset(~concept), digest)
    return thinning.dataset(dataset), replace(thinning.split(split), test=test), held
