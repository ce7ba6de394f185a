"""Division of a forget set into a stream of requests, each to be unlearned from the last one's model.

The forget set is divided by concept, balanced, in a seeded order. What counts as one concept depends on the task: a
brand; an item, where items, categories or a price band are to be forgotten; a user, where single interactions are. A
concept is never split over two requests. The division depends on the task and its train part alone, so all methods and
training seeds of a suite get the same requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.sampling import all_examples

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.items import ItemTable

_WORDS = {
    ConceptKind.BRAND: "brands",
    ConceptKind.ATTRIBUTE: "items",
    ConceptKind.PRICE: "items",
    ConceptKind.ITEM: "items",
    ConceptKind.INTERACTION: "users",
}


@dataclass(frozen=True, eq=False)
class Portion:
    """One request of a stream.

    Attributes:
        number: Its place in the stream, from 1.
        names: The brands it names; empty for the other kinds.
        concepts: Number of its brands, items or users.
        items: [N] concept items; none marked for the kind ``interaction``.
        pairs: [P, 2] (user, item) pairs; empty for the other kinds.
        interactions: Number of train examples it asks to forget.
    """

    number: int
    names: tuple[str, ...]
    concepts: int
    items: BoolArray
    pairs: IntArray
    interactions: int


@dataclass(frozen=True, eq=False)
class Stream:
    """A forget set as requests, one after the other.

    Attributes:
        split: The task as a whole.
        places: Place of the request (from 0) by item, or by user for the kind ``interaction``; -1 where nothing is
            asked to be forgotten.
    """

    split: ForgetSplit
    requests: tuple[Portion, ...]
    places: IntArray

    def owners(self, forget: Examples) -> IntArray:
        """[M] place (from 0) of the request that each example of a forget side belongs to."""
        return self.places[_labels(self.split.kind, forget)]

    def asked(self, number: int) -> ForgetSplit:
        """The task as the method gets it at one request: what to forget now, and what may still be used.

        Data of later requests are retain data. Examples of earlier requests are gone, and so are their events in every
        history; rows whose history becomes empty go as well. Validation examples of an interaction request are train
        interactions, so later ones stay out of the retain side of validation.
        """
        split, portion = self.split, self.requests[number - 1]
        gone = self._until(number - 1)

        def part(groups: Groups, *, later: bool) -> Groups:
            owners = self.owners(groups.forget)
            forget = groups.forget.subset(owners == number - 1)
            waiting = groups.forget.subset(owners >= number)
            retain = _joined(groups.retain, waiting) if later else groups.retain
            return Groups(forget, retain) if number == 1 else Groups(gone.cleaned(forget), gone.cleaned(retain))

        return replace(
            split,
            items=portion.items,
            pairs=portion.pairs,
            train=part(split.train, later=True),
            valid=part(split.valid, later=split.kind is not ConceptKind.INTERACTION),
        )

    def so_far(self, number: int) -> ForgetSplit:
        """The task with the first ``number`` requests as its forget set; the retain side of the test part stays that
        of the whole stream."""
        test = self.split.test
        forget = test.forget.subset(self.owners(test.forget) < number)
        return replace(self._until(number), test=Groups(forget, test.retain))

    def _until(self, number: int) -> ForgetSplit:
        """The task with the concepts of the first ``number`` requests alone, its parts left as they are."""
        items = np.zeros_like(self.split.items)
        for portion in self.requests[:number]:
            items |= portion.items
        pairs = np.concatenate([self.split.pairs[:0], *(portion.pairs for portion in self.requests[:number])])
        return replace(self.split, items=items, pairs=pairs)


def divide(split: ForgetSplit, items: ItemTable, count: int) -> Stream:
    """Divide a forget set into ``count`` requests of about as many train interactions each.

    The largest concepts are dealt out first, each to the request with the fewest interactions so far; the order of
    concepts of one size, and of the requests themselves, is drawn for the task.

    Raises UsageError where fewer concepts than requests have anything to be forgotten.
    """
    units, names = _units(split, items)
    found = units[_labels(split.kind, split.train.forget)]
    weights = np.bincount(found, minlength=int(units.max(initial=-1)) + 1).astype(np.int64)
    there = int(np.count_nonzero(weights))
    if count > there:
        words = _WORDS[split.kind]
        raise UsageError(
            f"the forget set has {there} {words} with train interactions, so it cannot be asked in {count} requests",
            where=split.manifest.task,
            hint=f"--requests {there} at most, as {words} are never split over two requests",
        )
    generator = numpy_generator(0, "stream", split.manifest.digest, count)
    dealt = _dealt(weights, count, generator)
    places = np.where(units >= 0, dealt[np.maximum(units, 0)], -1).astype(np.int64)
    single = split.kind is ConceptKind.INTERACTION
    owners = places[_labels(split.kind, split.train.forget)]
    requests = []
    for place in range(count):
        chosen = np.flatnonzero(dealt == place)
        marked = np.zeros_like(split.items) if single else np.asarray(places == place, dtype=np.bool_)
        pairs = split.pairs[places[split.pairs[:, 0]] == place] if single else split.pairs
        shown = tuple(names[unit] for unit in chosen) if names else ()
        requests.append(Portion(place + 1, shown, len(chosen), marked, pairs, int(np.count_nonzero(owners == place))))
    return Stream(split, tuple(requests), places)


def _labels(kind: ConceptKind, examples: Examples) -> IntArray:
    """[M] what an example's request is looked up by: its user for single interactions, its target otherwise."""
    return examples.users if kind is ConceptKind.INTERACTION else examples.targets


def _units(split: ForgetSplit, items: ItemTable) -> tuple[IntArray, tuple[str, ...]]:
    """The concept's number by item (or user), -1 where there is none; and the brands' names by number."""
    if split.kind is ConceptKind.INTERACTION:
        marked = np.zeros(int(split.pairs[:, 0].max(initial=-1)) + 1, dtype=np.bool_)
        marked[split.pairs[:, 0]] = True
    else:
        marked = split.items
    if split.kind is not ConceptKind.BRAND:
        return np.where(marked, np.cumsum(marked) - 1, -1).astype(np.int64), ()
    rows = np.flatnonzero(marked)
    names, numbers = np.unique([items.brands[row] for row in rows], return_inverse=True)
    units = np.full(len(marked), -1, dtype=np.int64)
    units[rows] = numbers.ravel()
    return units, tuple(str(name) for name in names)


def _dealt(weights: IntArray, count: int, generator: np.random.Generator) -> IntArray:
    """[U] the request of every concept: longest-processing-time scheduling, then the requests are shuffled."""
    order = generator.permutation(len(weights))
    order = order[np.argsort(-weights[order], kind="stable")]
    loads = np.zeros(count, dtype=np.int64)
    dealt = np.empty(len(weights), dtype=np.int64)
    for unit in order:
        dealt[unit] = loads.argmin()
        loads[dealt[unit]] += weights[unit]
    shuffled: IntArray = generator.permutation(count).astype(np.int64)[dealt]
    return shuffled


def _joined(one: Examples, other: Examples) -> Examples:
    """The examples of both, ``one`` first; events that both share are not repeated."""
    if not len(other):
        return one
    if one.events is other.events or (
        np.array_equal(one.events, other.events) and np.array_equal(one.event_users, other.event_users)
    ):
        columns = ("users", "targets", "times", "starts", "ends")
        return replace(one, **{name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in columns})
    return all_examples(Groups(one, other))
