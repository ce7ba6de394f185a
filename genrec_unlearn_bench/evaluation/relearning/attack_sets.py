"""What an attack trains on, step by step: a function of the seed and the step alone, the same for every model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.evaluation.relearning.attacks import CONCEPT_SHARE, SUBSETS, Attack
from genrec_unlearn_bench.evaluation.relearning.division import Division
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["AttackSet", "attack_set", "batches"]

_WINDOW = 50
"""Batches among which examples of similar length are brought together."""


@dataclass(frozen=True, eq=False)
class Source:
    """A part of every batch.

    Attributes:
        name: concept or retain.
        rows: [n] its examples, as places in ``AttackSet.examples``.
        size: How many of them are in a batch.
    """

    name: str
    rows: IntArray
    size: int


@dataclass(frozen=True, eq=False)
class AttackSet:
    """The data of one attack.

    Attributes:
        examples: All of it.
        sources: What each batch is put together from; the concept's interactions first where there are some.
    """

    attack: Attack
    examples: Examples
    sources: tuple[Source, ...]

    @property
    def what(self) -> str:
        """The source that ``passes`` counts, for people: "12 concept interactions"."""
        return f"{len(self.sources[0].rows)} {self.sources[0].name} interactions"

    def passes(self, step: int) -> float:
        """How often so many steps pass over the concept's interactions (``benign``: over the retain interactions)."""
        first = self.sources[0]
        return step * first.size / len(first.rows)


def attack_set(attack: Attack, division: Division, batch_size: int, seed: int) -> AttackSet:
    """Put the data of one attack together. Smaller forget-only attacks use a part of what larger ones use."""
    concept, retain = division.concept, division.retain
    if attack is Attack.BENIGN:
        rows = np.arange(len(retain), dtype=np.int64)
        return AttackSet(attack, retain, (Source("retain", rows, min(batch_size, len(rows))),))
    if attack is Attack.MIXED:
        of_concept = max(1, round(CONCEPT_SHARE * batch_size))
        first = np.arange(len(concept), dtype=np.int64)
        second = np.arange(len(retain), dtype=np.int64) + len(concept)
        sources = (Source("concept", first, of_concept), Source("retain", second, batch_size - of_concept))
        return AttackSet(attack, _joined(concept, retain), sources)
    order = numpy_generator(seed, "relearning", "subset").permutation(len(concept))
    rows = np.sort(order[: max(1, math.ceil(SUBSETS[attack] * len(concept)))]).astype(np.int64)
    return AttackSet(attack, concept, (Source("concept", rows, min(batch_size, len(rows))),))


def batches(data: AttackSet, lengths: IntArray, *, seed: int, first: int, total: int) -> Iterator[IntArray]:
    """Rows of ``data.examples`` for the steps ``first`` to ``total`` - 1.

    Every source goes through its examples pass by pass, each in a new order, and gives equally many to each batch.
    Within windows of 50 batches, examples of similar length come together: there is little to pad.

    Args:
        lengths: [M] history lengths of ``data.examples``.
    """
    for step in range(first, total):
        window, place = divmod(step, _WINDOW)
        if step == first or place == 0:
            order = numpy_generator(seed, "relearning", data.attack, "order", window).permutation(_WINDOW)
            parts = [_window(source, lengths, data.attack, seed, window) for source in data.sources]
            rows = np.concatenate(parts, axis=1)[order]
        yield rows[place]


def _window(source: Source, lengths: IntArray, attack: Attack, seed: int, window: int) -> IntArray:
    """[50, size] the source's rows in one window of batches, the shortest histories first."""
    count = _WINDOW * source.size
    places = np.arange(window * count, (window + 1) * count)
    passes, within = np.divmod(places, len(source.rows))
    drawn = np.empty(count, dtype=np.int64)
    for number in np.unique(passes):
        order = numpy_generator(seed, "relearning", attack, source.name, int(number)).permutation(len(source.rows))
        drawn[passes == number] = source.rows[order[within[passes == number]]]
    return drawn[np.argsort(lengths[drawn], kind="stable")].reshape(_WINDOW, source.size)


def _joined(one: Examples, two: Examples) -> Examples:
    """The examples of both, over the events of both."""
    shift = len(one.events)
    return Examples(
        users=np.concatenate([one.users, two.users]),
        targets=np.concatenate([one.targets, two.targets]),
        times=np.concatenate([one.times, two.times]),
        events=np.concatenate([one.events, two.events]),
        event_users=np.concatenate([one.event_users, two.event_users]),
        starts=np.concatenate([one.starts, two.starts + shift]),
        ends=np.concatenate([one.ends, two.ends + shift]),
    )
