"""What an attack trains on: the right shares, every example in turn, and the same from any step on."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.evaluation.relearning.attack_sets import AttackSet, attack_set, batches
from genrec_unlearn_bench.evaluation.relearning.attacks import Attack
from genrec_unlearn_bench.evaluation.relearning.division import divide
from tests.evaluation.relearning import world


def _set(attack: Attack, batch_size: int = 30) -> AttackSet:
    return attack_set(attack, divide(world.split(), 0), batch_size, 0)


def _batches(data: AttackSet, total: int, first: int = 0) -> list[IntArray]:
    return list(batches(data, data.examples.history_lengths(), seed=0, first=first, total=total))


@pytest.mark.parametrize("attack", list(Attack))
def test_no_batch_holds_anything_held_out(attack: Attack) -> None:
    parts = divide(world.split(), 0)
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
    total = len(divide(world.split(), 0).concept)
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


def test_batches_depend_on_the_step_alone() -> None:
    data = _set(Attack.MIXED)
    every = _batches(data, 130)
    for first in (1, 50, 77):
        for one, two in zip(_batches(data, 130, first), every[first:], strict=True):
            assert np.array_equal(one, two)
    assert not np.array_equal(np.sort(every[0]), np.sort(every[50]))


def test_batches_bring_similar_lengths_together() -> None:
    data = _set(Attack.MIXED)
    lengths = data.examples.history_lengths()
    spread = np.mean([np.ptp(lengths[rows]) for rows in _batches(data, 100)])
    assert spread < 0.3 * np.ptp(lengths)


def test_joined_examples_keep_their_histories() -> None:
    parts, data = divide(world.split(), 0), _set(Attack.MIXED)
    both = [parts.concept.histories().items, parts.retain.histories().items]
    found = data.examples.histories().items
    assert np.array_equal(found[: len(both[0]), : both[0].shape[1]], both[0])
    assert np.array_equal(found[len(both[0]) :, : both[1].shape[1]], both[1])
    assert np.array_equal(data.examples.users, np.concatenate([parts.concept.users, parts.retain.users]))
