"""Nothing that is scored is ever seen by an attack, and nothing is measured on a handful."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.relearning import division
from genrec_unlearn_bench.evaluation.relearning.division import Division, divide, halves
from tests.evaluation.relearning import world


def _seen(parts: Division) -> tuple[set[int], set[int]]:
    """Users and items that the attacker's interactions name, as targets or in histories."""
    users: set[int] = set()
    items: set[int] = set()
    for part in (parts.concept, parts.retain):
        users |= set(part.users.tolist())
        items |= set(part.targets.tolist()) | set(part.histories().items.ravel().tolist()) - {-1}
    return users, items


@pytest.mark.parametrize("kind", [ConceptKind.BRAND, ConceptKind.INTERACTION])
def test_attack_and_held_out_share_neither_users_nor_items(kind: ConceptKind) -> None:
    parts = divide(world.split(kind), 0)
    users, items = _seen(parts)
    for part in (parts.train, parts.test):
        assert not users & set(part.users.tolist())
        assert not items & set(part.targets.tolist())
    assert not items & set(np.flatnonzero(parts.items).tolist())
    assert len(parts.train) >= division.LEAST
    assert len(parts.test) == (0 if kind is ConceptKind.INTERACTION else 46)


def test_each_side_gets_what_it_should() -> None:
    split, marked = world.split(), world.concept()
    parts = divide(split, 0)
    assert parts.items.sum() == marked.sum() // 2
    assert not (parts.items & ~marked).any()
    assert marked[parts.concept.targets].all()
    assert not marked[parts.retain.targets].any()
    assert parts.users.sum() == 100
    # A quarter of the interactions, as neighbours in popularity are dealt to both sides.
    share = len(split.train.forget) / 4
    assert abs(len(parts.concept) - share) < 0.15 * share
    assert abs(len(parts.train) - share) < 0.15 * share


def test_the_draw_is_the_seeds_alone() -> None:
    once, again, other = (divide(world.split(), seed) for seed in (0, 0, 1))
    assert np.array_equal(once.items, again.items)
    assert np.array_equal(once.users, again.users)
    assert np.array_equal(once.train.targets, again.train.targets)
    assert not np.array_equal(once.items, other.items)
    assert not np.array_equal(once.users, other.users)


def test_more_held_out_than_needed_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    every = divide(world.split(), 0).train
    monkeypatch.setattr(division, "MOST_HELD_OUT", 30)
    once, again = (divide(world.split(), 0).train for _ in range(2))
    assert len(once) == 30
    assert np.array_equal(once.ends, again.ends)
    assert set(once.ends.tolist()) < set(every.ends.tolist())


@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_halves_are_halves_of_every_popularity(size: int) -> None:
    counts = np.arange(size) ** 2
    away = halves(counts, np.random.default_rng(0))
    assert abs(int(away.sum()) - size / 2) <= 0.5
    neighbours = away[::-1][: size // 2 * 2].reshape(-1, 2)
    assert (neighbours.sum(axis=1) == 1).all()


def test_too_few_on_any_side_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    split = world.split()
    forget, retain = split.train.forget, split.train.retain
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(NotMeasurable, match="there are 0 forgotten interactions of the attacker's users"):
        divide(replace(split, train=Groups(forget.subset(nothing), retain)), 0)
    with pytest.raises(NotMeasurable, match="there are 0 retain interactions"):
        divide(replace(split, train=Groups(forget, retain.subset(nothing))), 0)
    seed = next(seed for seed in range(20) if len(divide(split, seed).train) < len(divide(split, seed).concept))
    monkeypatch.setattr(division, "LEAST", len(divide(split, seed).concept))
    with pytest.raises(NotMeasurable, match="held-out forgotten interactions"):
        divide(split, seed)


def test_too_few_future_interactions_are_left_out() -> None:
    split = world.split()
    few = replace(split.test, forget=split.test.forget.subset(np.arange(20)))
    assert len(divide(replace(split, test=few), 0).test) == 0
