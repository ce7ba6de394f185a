"""What the attacker has, and what is kept from him to be scored on.

After Deeb & Roger, "Do unlearning methods remove information from model weights?" (arXiv 2410.08827): the attacker
sees one part of the facts and is scored on the rest. An attack that is scored on what it trained on teaches it anew,
whatever the weights held (Feng et al., arXiv 2506.00688). Here the facts are concept interactions: both the items and
the users are halved, and what is scored shares neither with the attack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["LEAST", "MOST_HELD_OUT", "Division", "divide", "halves"]

LEAST = 20
"""Fewest interactions in the attacker's hands, and fewest held out."""

MOST_HELD_OUT = 500
"""Most held-out interactions of each part that are scored; a fixed draw where there are more."""


@dataclass(frozen=True, eq=False)
class Division:
    """The two sides of one task, the same for every model of a seed.

    Attributes:
        users: [U] the attacker's users; the others are held out.
        items: [N] held-out concept items. No attack sees one, as a target or in a history.
        concept: Forgotten train interactions of the attacker's users with the attacker's concept items.
        retain: Retain train interactions of the attacker's users.
        train: Forgotten train interactions of held-out users with held-out items, which are scored.
        test: The same of the test part. Empty for interaction requests, as deleted data has no future of its own, and
            where there are fewer than ``LEAST``.
    """

    users: BoolArray
    items: BoolArray
    concept: Examples
    retain: Examples
    train: Examples
    test: Examples


def divide(split: ForgetSplit, seed: int) -> Division:
    """Halve the concept's items and all users, each by a draw that only the seed decides.

    Interaction requests mark no items: there the targets of the forgotten pairs are halved, and the attacker's retain
    interactions with held-out ones go as well, since nothing of what is scored may be seen. That takes a part of the
    catalogue from him; the retrained model is attacked with the same.

    Histories of held-out interactions stay as they are: nobody trains on them, and they may hold any item.

    Raises:
        NotMeasurable: Too few interactions on one of the sides.
    """
    forgotten = split.train.forget
    single = split.kind is ConceptKind.INTERACTION
    targets = np.unique(forgotten.targets) if single else np.flatnonzero(split.items)
    counts = np.bincount(forgotten.targets, minlength=len(split.items))[targets]
    away = halves(counts, numpy_generator(seed, "relearning", "items"))
    items = np.zeros(len(split.items), dtype=np.bool_)
    items[targets[away]] = True

    everyone = (split.train.forget, split.train.retain, split.test.forget)
    size = 1 + max(int(part.users.max(initial=-1)) for part in everyone)
    busy = np.bincount(forgotten.users, minlength=size)
    users = ~halves(busy, numpy_generator(seed, "relearning", "users"))

    def seen(part: Examples) -> Examples:
        kept = part.subset(users[part.users] & ~items[part.targets]).without_items(items)
        return kept.subset(kept.ends > kept.starts)

    def scored(part: Examples, name: str) -> Examples:
        rows = np.flatnonzero(~users[part.users] & items[part.targets])
        if len(rows) > MOST_HELD_OUT:
            generator = numpy_generator(seed, "relearning", "held-out", name)
            rows = np.sort(generator.choice(rows, size=MOST_HELD_OUT, replace=False))
        return part.subset(rows)

    test = scored(split.test.forget, "test")
    if single or len(test) < LEAST:
        test = test.subset(np.zeros(len(test), dtype=np.bool_))
    division = Division(users, items, seen(forgotten), seen(split.train.retain), scored(forgotten, "train"), test)
    for found, what in (
        (division.concept, "forgotten interactions of the attacker's users with his half of the concept's items"),
        (division.retain, "retain interactions of the attacker's users"),
        (division.train, "held-out forgotten interactions, of users and items that the attack does not see"),
    ):
        if len(found) < LEAST:
            raise NotMeasurable(f"there are {len(found)} {what}, and an attack takes at least {LEAST}")
    return division


def halves(counts: IntArray, generator: np.random.Generator) -> BoolArray:
    """[n] a random half of n things, True for one of every two neighbours in the order of ``counts`` [n].

    Popular things would otherwise decide by their luck how much one side holds.
    """
    order = np.lexsort((generator.random(len(counts)), counts))[::-1]
    coins = generator.random((len(counts) + 1) // 2) < 0.5
    first = np.repeat(coins, 2)[: len(counts)]
    odd = np.arange(len(counts)) % 2 == 1
    out = np.zeros(len(counts), dtype=np.bool_)
    out[order] = first ^ odd
    return out
