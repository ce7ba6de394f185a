"""Held-out interactions that no model trains on: the non-members of membership inference.

They are carved out of the train part before the first model is trained. Test interactions cannot take their place: they
are later in time, so they can be told from training data without any memorisation. The holdout is a random part of
the same interactions, so time and concept match.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray, Thinned, among, distinct
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["SHARE", "Holdout", "carve"]

SHARE = 0.1
"""Share of the (user, item) pairs of the train part. With 5 %, a brand task on Industrial would have 93 non-members of
its concept, and no false-positive rate of 1 % could be resolved."""


@dataclass(frozen=True, eq=False)
class Holdout:
    """The held-out interactions.

    Attributes:
        pairs: [P, 2] the (user, item) pairs; no training sees one, as a target or in a history.
        forget: Examples to be held against the forget set: those with a concept target. For interaction requests all
            of them, as the forget set is a random draw from the same interactions.
        retain: The other ones (none for interaction requests: there it is ``forget`` that both sides are held
            against).
        digest: blake2b-128 over the pairs.
    """

    pairs: IntArray
    forget: Examples
    retain: Examples
    digest: str


def carve(dataset: Dataset, split: ForgetSplit, *, share: float = SHARE) -> tuple[Dataset, ForgetSplit, Holdout]:
    """Split the holdout off; returns the dataset and the task without it, and the holdout.

    The draw depends on the dataset alone, so that all its tasks, methods and seeds share one holdout and one original.
    Train examples of the drawn pairs go, and their events vanish from the histories of train and validation examples;
    examples whose history becomes empty go with them. Test examples keep theirs, as a deployed system would: but where
    interactions themselves are to be forgotten, the drawn ones among them are no longer to be forgotten.
    """
    train = dataset.train
    width = max(len(dataset.items), 1)
    every = distinct(train.users * width + train.targets)
    generator = numpy_generator(0, "holdout", dataset.manifest.digest)
    drawn = np.sort(generator.choice(every, size=round(len(every) * share), replace=False))

    shared: list[tuple[Examples, Thinned]] = []

    def held(examples: Examples) -> BoolArray:
        return among(examples.users * width + examples.targets, drawn)

    def thinned(examples: Examples) -> Examples:
        # Parts lie over the same events, which are worth thinning once: in a large log they are most of the memory.
        known = (
            found
            for over, found in shared
            if over.events is examples.events and over.event_users is examples.event_users
        )
        events = next(known, None)
        if events is None:
            events = Thinned.of(examples, among(examples.event_users * width + examples.events, drawn))
            shared.append((examples, events))
        kept = events.applied(examples)
        return kept.subset(kept.ends > kept.starts)

    def both(groups: Groups) -> Groups:
        return Groups(*(thinned(part.subset(~held(part))) for part in (groups.forget, groups.retain)))

    single = split.kind is ConceptKind.INTERACTION
    away = thinned(train.subset(held(train)))
    concept = np.ones(len(away), dtype=np.bool_) if single else split.items[away.targets]
    test = split.test
    if single:
        test = replace(test, forget=test.forget.subset(~held(test.forget)))
    lean = replace(
        split,
        pairs=split.pairs[~among(split.pairs[:, 0] * width + split.pairs[:, 1], drawn)],
        train=both(split.train),
        valid=both(split.valid),
        test=test,
    )
    rest = replace(
        dataset, train=thinned(train.subset(~held(train))), valid=thinned(dataset.valid.subset(~held(dataset.valid)))
    )
    pairs = np.stack([drawn // width, drawn % width], axis=1)
    digest = hashlib.blake2b(np.ascontiguousarray(pairs, dtype="<i8").tobytes(), digest_size=16).hexdigest()
    return rest, lean, Holdout(pairs, away.subset(concept), away.subset(~concept), digest)
