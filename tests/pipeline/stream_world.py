"""Forget sets over the planted catalogue, of every kind of request."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.data.items import ItemTable
from tests import planted
from tests.evaluation.planted import manifest

COLUMNS = (
    *("request", "names", "concepts", "items", "interactions"),
    *("forget_hr@10", "exposed_forget_hr@10", "so_far_hr@10", "exposed_so_far_hr@10"),
    *("earlier_hr@10", "exposed_earlier_hr@10", "retain_hr@10", "retain_ndcg@10"),
    *("seconds", "cumulative_seconds", "share_of_retraining", "forget_n", "so_far_n", "earlier_n", "retain_n"),
)
"""Of ``measurements/stream.csv``."""


def brands(of_brand: int = 2) -> ItemTable:
    """The planted catalogue; groups side by side, ``of_brand`` at a time, are of one brand."""
    items = planted.catalogue()
    names = tuple(f"brand {item // planted.MEMBERS // of_brand}" for item in range(len(items.ids)))
    return replace(items, brands=names)


def concept_split(kind: ConceptKind, *, train: int = 150, test: int = 40) -> ForgetSplit:
    """One item of every planted group is to be forgotten, each in another place of it: items of two requests then have
    no token in common, so that forgetting one does not forget the others."""
    marked = np.zeros(len(planted.catalogue().ids), dtype=np.bool_)
    marked[np.arange(planted.GROUPS) * planted.MEMBERS + np.arange(planted.GROUPS)] = True
    parts = [planted.groups(planted.examples(planted.sequences(n, 9, s)), marked) for n, s in _sizes(train, test)]
    return ForgetSplit(kind, marked, np.zeros((0, 2), dtype=np.int64), parts[0], parts[1], parts[2], manifest(kind))


def interaction_split(*, train: int = 150, test: int = 40) -> ForgetSplit:
    """Every fifth train interaction is to be forgotten; one in ten of these is for validation, the others for test."""
    whole, valid, later = (planted.examples(planted.sequences(n, 9, s)) for n, s in _sizes(train, test))
    drawn = np.arange(len(whole)) % 5 == 0
    pairs = np.unique(np.stack([whole.users[drawn], whole.targets[drawn]], axis=1), axis=0)
    # A user may meet an item twice: it is the pair that is to be forgotten.
    forget = np.isin(codes(whole), pairs[:, 0] * 64 + pairs[:, 1])
    held = forget & (np.cumsum(forget) % 10 == 0)
    kind = ConceptKind.INTERACTION
    return ForgetSplit(
        kind,
        np.zeros(64, dtype=np.bool_),
        pairs,
        Groups(whole.subset(forget), whole.subset(~forget)),
        Groups(whole.subset(held), valid),
        Groups(whole.subset(forget & ~held), later),
        manifest(kind),
    )


def codes(examples: Examples) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """One number for every example's user and target."""
    return examples.users * 64 + examples.targets


def rows(examples: Examples) -> list[tuple[int, int, int]]:
    """What identifies examples of one part, whatever happened to their histories: user, target, place in time."""
    return list(zip(examples.users.tolist(), examples.targets.tolist(), examples.times.tolist(), strict=True))


def events(examples: Examples) -> set[tuple[int, int]]:
    """(user, item) of everything that stands in a history."""
    out: set[tuple[int, int]] = set()
    for start, end in zip(examples.starts, examples.ends, strict=True):
        users, items = examples.event_users[start:end], examples.events[start:end]
        out |= set(zip(users.tolist(), items.tolist(), strict=True))
    return out


def _sizes(train: int, test: int) -> tuple[tuple[int, int], ...]:
    return (train, 1), (20, 2), (test, 3)
