"""What is read of a model for its probes: the same examples for every model of a seed.

Positives are forget-train interactions, negatives retain-train ones whose target has the same level-1 code. The control
tasks find their pseudo-concepts among the negatives, so that they need no reading of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.data.examples import PAD, BoolArray, Histories, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.probing.rows import Rows, rank_within
from genrec_unlearn_bench.seeding import numpy_generator

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.measurement import Subject

__all__ = ["MATCHES", "POSITIVES", "Pool", "pseudo_concept", "sample_pool"]

POSITIVES = MappingProxyType({"smoke": 500, "small": 2000, "paper": 4000, "official": 4000})
"""Most positives by scale, of interactions and of places in histories alike."""
MATCHES = 4
"""Most negatives for each positive of a level-1 code. Many of them cannot be used beside it, because their item or
their user is in another part; and a control task divides them once more."""


@dataclass(frozen=True, eq=False)
class Pool:
    """E interactions, H places of an item in one of their histories, and all N items.

    Attributes:
        histories: [E, T] as the model is given them, without the target.
        targets: E rows: positive where the interaction is to be forgotten.
        mentions: H rows, positive where a concept item is mentioned; none for interaction requests, where no item is
            marked. A (user, item) pair is there once.
        owners: [H] the history of each mention.
        catalogue: The items whose level-1 code the concept has as well.
    """

    histories: Histories
    targets: Rows
    mentions: Rows
    owners: IntArray
    catalogue: Rows


def sample_pool(subject: Subject) -> Pool:
    """Draw the pool; it depends on the task, the seed, the scale and the model's history limit alone.

    Raises:
        NotMeasurable: The train part has one class only.
    """
    split, most = subject.split, POSITIVES[subject.scale]
    codes = subject.original_sids.codes[:, 0]
    generator = numpy_generator(subject.seed, "probing", "examples")
    forget, retain = split.train.forget, split.train.retain
    if not len(forget) or not len(retain):
        raise NotMeasurable(
            f"a probe needs two classes: there are {len(forget)} forget and {len(retain)} retain examples"
        )
    forget = forget.subset(np.sort(generator.permutation(len(forget))[:most]))
    wanted = _matched(codes[forget.targets], codes[retain.targets], generator)
    retain = retain.subset(wanted)
    limit = subject.recommender.history_limit
    items = np.full((len(forget) + len(retain), limit), PAD, dtype=np.int64)
    for first, part in ((0, forget), (len(forget), retain)):
        given = part.histories(limit).items
        items[first : first + len(part), : given.shape[1]] = given
    users = np.concatenate([forget.users, retain.users])
    aims = np.concatenate([forget.targets, retain.targets])
    targets = Rows(np.arange(len(aims)), np.arange(len(aims)) < len(forget), aims, users, codes[aims])
    histories = Histories(items, users)
    owners, named = _mentions(histories, codes, split.items, most, generator)
    mentions = Rows(np.arange(len(named)), split.items[named], named, users[owners], codes[named])
    concept = split.items if split.kind is not ConceptKind.INTERACTION else np.zeros_like(split.items)
    every = np.flatnonzero(np.isin(codes, codes[concept]))
    catalogue = Rows(every, concept[every], every, every, codes[every])
    return Pool(histories, targets, mentions, owners, catalogue)


def pseudo_concept(rows: Rows, generator: np.random.Generator, *, single: bool) -> Rows:
    """A control task (Hewitt & Liang 2019, arXiv 1909.03368): the negatives, a random part of them called positive.

    As many random items as the positives have, at most half of the negatives' items, so that a match is left for
    each. There is nothing to be known about such a set but its items.

    Args:
        single: Interactions were drawn at random, not by item; so is the pseudo-concept.
    """
    rest = rows.subset(~rows.labels)
    if single:
        count = min(int(rows.labels.sum()), len(rest) // 2)
        labels = generator.permutation(len(rest)) < count
    else:
        known = np.unique(rest.items)
        count = min(len(np.unique(rows.items[rows.labels])), len(known) // 2)
        labels = np.isin(rest.items, generator.choice(known, size=count, replace=False))
    return Rows(rest.places, np.asarray(labels, dtype=np.bool_), rest.items, rest.users, rest.codes)


def _matched(positives: IntArray, candidates: IntArray, generator: np.random.Generator) -> BoolArray:
    """[len(candidates)] at most ``MATCHES`` for each positive of the same code, at random."""
    size = int(max(positives.max(initial=0), candidates.max(initial=0))) + 1
    quota = MATCHES * np.bincount(positives, minlength=size)
    rank = rank_within(candidates, generator.random(len(candidates)))
    return np.asarray(rank < quota[candidates], dtype=np.bool_)


def _mentions(
    histories: Histories, codes: IntArray, concept: BoolArray, most: int, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """History and item of concept items mentioned, and of as many times ``MATCHES`` others of the same codes."""
    owners, places = np.nonzero(histories.items != PAD)
    named = histories.items[owners, places]
    order = generator.permutation(len(named))
    pairs = histories.users[owners[order]] * len(concept) + named[order]
    first = np.sort(order[np.unique(pairs, return_index=True)[1]])
    owners, named = owners[first], named[first]
    hit = np.flatnonzero(concept[named])
    hit = np.sort(generator.permutation(hit)[:most])
    rest = np.flatnonzero(~concept[named])
    rest = rest[_matched(codes[named[hit]], codes[named[rest]], generator)]
    chosen = np.concatenate([hit, rest])
    return owners[chosen], named[chosen]
