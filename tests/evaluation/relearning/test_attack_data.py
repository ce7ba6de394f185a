"""The two sides of a task, and the batches of every attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.relearning import attack as attacks
from genrec_unlearn_bench.evaluation.relearning.attack import (
    AttackSet,
    AttackSplit,
    attack_set,
    batches,
    halves,
    split_for_attacks,
)
from genrec_unlearn_bench.evaluation.relearning.measurement import Attack
from tests.evaluation.relearning import world


def _seen(parts: AttackSplit) -> tuple[set[int], set[int]]:
    """Users and items that the attacker's interactions name, as targets or in histories."""
    users: set[int] = set()
    items: set[int] = set()
    for part in (parts.concept, parts.retain):
        users |= set(part.users.tolist())
        items |= set(part.targets.tolist()) | set(part.histories().items.ravel().tolist()) - {-1}
    return users, items


@pytest.mark.parametrize("kind", [ConceptKind.BRAND, ConceptKind.INTERACTION])
def test_attack_and_held_out_share_neither_users_nor_items(kind: ConceptKind) -> None:
    parts = split_for_attacks(world.split(kind), 0)
    users, items = _seen(parts)
    for part in (parts.train, parts.test):
        assert not users & set(part.users.tolist())
        assert not items & set(part.targets.tolist())
    assert not items & set(np.flatnonzero(parts.items).tolist())
    assert len(parts.train) >= attacks.LEAST
    assert len(parts.test) == (0 if kind is ConceptKind.INTERACTION else 46)


def test_each_side_gets_what_it_should() -> None:
    split, marked = world.split(), world.concept()
    parts = split_for_attacks(split, 0)
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
    once, again, other = (split_for_attacks(world.split(), seed) for seed in (0, 0, 1))
    assert np.array_equal(once.items, again.items)
    assert np.array_equal(once.users, again.users)
    assert np.array_equal(once.train.targets, again.train.targets)
    assert not np.array_equal(once.items, other.items)
    assert not np.array_equal(once.users, other.users)


def test_more_held_out_than_needed_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    every = split_for_attacks(world.split(), 0).train
    monkeypatch.setattr(attacks, "MOST_HELD_OUT", 30)
    once, again = (split_for_attacks(world.split(), 0).train for _ in range(2))
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
        split_for_attacks(replace(split, train=Groups(forget.subset(nothing), retain)), 0)
    with pytest.raises(NotMeasurable, match="there are 0 retain interactions"):
        split_for_attacks(replace(split, train=Groups(forget, retain.subset(nothing))), 0)
    seed = next(
        seed
        for seed in range(20)
        if len(split_for_attacks(split, seed).train) < len(split_for_attacks(split, seed).concept)
    )
    monkeypatch.setattr(attacks, "LEAST", len(split_for_attacks(split, seed).concept))
    with pytest.raises(NotMeasurable, match="held-out forgotten interactions"):
        split_for_attacks(split, seed)


def test_too_few_future_interactions_are_left_out() -> None:
    split = world.split()
    few = replace(split.test, forget=split.test.forget.subset(np.arange(20)))
    assert len(split_for_attacks(replace(split, test=few), 0).test) == 0


def _set(attack: Attack, batch_size: int = 30) -> AttackSet:
    return attack_set(attack, split_for_attacks(world.split(), 0), batch_size, 0)


def _batches(data: AttackSet, total: int) -> list[IntArray]:
    return list(batches(data, data.examples.history_lengths(), seed=0, total=total))


@pytest.mark.parametrize("attack", list(Attack))
def test_no_batch_holds_anything_held_out(attack: Attack) -> None:
    parts = split_for_attacks(world.split(), 0)
    data = _set(attack)
    for rows in _batches(data, 60):
        histories = data.examples.histories(rows=rows).items
        assert parts.users[data.examples.users[rows]].all()
        assert not parts.items[data.examples.targets[rows]].any()
        assert not parts.items[histories[histories >= 0]].any()


def test_a_fifth_of_every_mixed_batch_is_concept() -> None:
    data = _set(Attack.MIXED)
    for rows in _batches(data, 120):
        assert len(rows) == 30
        assert world.concept()[data.examples.targets[rows]].sum() == 6


def test_benign_batches_have_no_concept_target_and_others_nothing_else() -> None:
    for attack, expected in ((Attack.BENIGN, 0), (Attack.FORGET_100, 30)):
        data = _set(attack)
        for rows in _batches(data, 20):
            assert world.concept()[data.examples.targets[rows]].sum() == expected


def test_subsets_are_nested_and_small_ones_make_small_batches() -> None:
    attacks = (Attack.FORGET_1, Attack.FORGET_5, Attack.FORGET_10, Attack.FORGET_100)
    sets = [_set(attack) for attack in attacks]
    total = len(split_for_attacks(world.split(), 0).concept)
    rows = [set(data.sources[0].rows.tolist()) for data in sets]
    assert [len(found) for found in rows] == [int(np.ceil(total * share)) for share in (0.01, 0.05, 0.1, 1.0)]
    assert rows[0] < rows[1] < rows[2] < rows[3]
    assert [len(_batches(data, 1)[0]) for data in sets] == [len(rows[0]), len(rows[1]), len(rows[2]), 30]
    assert sets[0].passes(50) == 50


def test_every_pass_takes_every_example_once() -> None:
    data = _set(Attack.MIXED)
    concept = data.sources[0].rows
    taken = np.concatenate(_batches(data, 300))
    counts = np.bincount(taken, minlength=len(data.examples))[concept]
    passes = data.passes(300)
    assert passes == 300 * 6 / len(concept)
    assert counts.min() >= int(passes)
    assert counts.max() <= int(passes) + 1


def test_batches_are_the_same_for_every_model_and_differ_from_window_to_window() -> None:
    data = _set(Attack.MIXED)
    every = _batches(data, 130)
    for one, two in zip(_batches(data, 77), every, strict=False):
        assert np.array_equal(one, two)
    assert not np.array_equal(np.sort(every[0]), np.sort(every[50]))


def test_batches_bring_similar_lengths_together() -> None:
    data = _set(Attack.MIXED)
    lengths = data.examples.history_lengths()
    spread = np.mean([np.ptp(lengths[rows]) for rows in _batches(data, 100)])
    assert spread < 0.3 * np.ptp(lengths)


def test_joined_examples_keep_their_histories() -> None:
    parts, data = split_for_attacks(world.split(), 0), _set(Attack.MIXED)
    both = [parts.concept.histories().items, parts.retain.histories().items]
    found = data.examples.histories().items
    assert np.array_equal(found[: len(both[0]), : both[0].shape[1]], both[0])
    assert np.array_equal(found[len(both[0]) :, : both[1].shape[1]], both[1])
    assert np.array_equal(data.examples.users, np.concatenate([parts.concept.users, parts.retain.users]))
