from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.backbones.sasrec_network import train_sequences
from genrec_unlearn_bench.data.examples import PAD, Examples, IntArray
from genrec_unlearn_bench.data.raw import GivenPart, GivenRows
from genrec_unlearn_bench.data.splits import as_given, leave_one_out

WALKS = st.lists(st.lists(st.integers(0, 5), min_size=0, max_size=9), min_size=1, max_size=6)


def logs(walks: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    users = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks]).astype(np.int64)
    return users, np.concatenate([np.asarray(walk, dtype=np.int64) for walk in walks])


def learned(sequences: tuple[IntArray, IntArray]) -> list[tuple[tuple[int, ...], int]]:
    """What is visible at every position with a target, and that target."""
    found = []
    for inputs, targets in zip(*sequences, strict=True):
        assert (targets[inputs == PAD] == PAD).all()
        assert (np.diff((inputs == PAD).astype(int)) >= 0).all(), "padding stands on the right"
        for place in np.flatnonzero(targets != PAD):
            found.append((tuple(inputs[: place + 1].tolist()), int(targets[place])))
    return found


def wanted(train: Examples) -> list[tuple[tuple[int, ...], int]]:
    rows = zip(train.starts, train.ends, train.targets, strict=True)
    return [(tuple(train.events[first:last].tolist()), int(target)) for first, last, target in rows if last > first]


@given(WALKS, st.data())
@settings(max_examples=150, deadline=None)
def test_every_example_is_learned_once_with_the_history_it_has(walks: list[list[int]], data: st.DataObject) -> None:
    users, items = logs(walks)
    train = leave_one_out(users, items).train
    # As in an oracle's cleaned examples: targets and events of a concept are gone.
    concept = np.zeros(6, dtype=bool)
    concept[data.draw(st.lists(st.integers(0, 5), max_size=3))] = True
    cleaned = train.subset(~concept[train.targets]).without_items(concept)
    for part in (train, cleaned, train.subset(np.arange(len(train))[::-1].copy())):
        assert Counter(learned(train_sequences(part, 9))) == Counter(wanted(part))


def test_valid_and_test_items_are_never_targets() -> None:
    train = leave_one_out(*logs([[1, 2, 3, 4, 5], [1, 2]])).train
    inputs, targets = train_sequences(train, 10)
    np.testing.assert_array_equal(inputs[:, :3], [[1, 2, PAD]])
    np.testing.assert_array_equal(targets[:, :3], [[2, 3, PAD]])


@given(WALKS, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_rows_with_histories_of_their_own_are_put_together_too(walks: list[list[int]], cap: int) -> None:
    rows = [(user, walk[max(0, t - cap) : t], walk[t]) for user, walk in enumerate(walks) for t in range(1, len(walk))]
    owners = np.array([user for user, _, _ in rows], dtype=np.int64)
    part = GivenPart(
        users=owners,
        targets=np.array([target for _, _, target in rows], dtype=np.int64),
        lengths=np.array([len(history) for _, history, _ in rows], dtype=np.int64),
        histories=np.array([item for _, history, _ in rows for item in history], dtype=np.int64),
    )
    nothing = np.empty(0, dtype=np.int64)
    empty = GivenPart(users=nothing, targets=nothing, lengths=nothing, histories=nothing)
    train = as_given(GivenRows(part, empty, empty)).train
    sequences = train_sequences(train, 9)
    assert len(sequences[0]) <= sum(len(walk) > 1 for walk in walks)
    whole = [(tuple(walk[:t]), walk[t]) for walk in walks for t in range(1, len(walk))]
    assert Counter(learned(sequences)) == Counter(whole), "a cut history sees the run's earlier items as well"


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7])
def test_long_runs_become_overlapping_windows(limit: int) -> None:
    walk = list(range(30))
    train = leave_one_out(*logs([walk])).train
    found = learned(train_sequences(train, limit))
    assert sorted(target for _, target in found) == walk[1:-2]
    for seen, target in found:
        assert seen == tuple(walk[target - len(seen) : target])
        assert min(target, limit - max(limit // 2, 1) + 1) <= len(seen) <= limit


def test_empty_histories_have_no_position() -> None:
    train = leave_one_out(*logs([[1, 2, 3, 4]])).train
    assert len(train_sequences(train.without_items(np.ones(6, dtype=bool)), 4)[0]) == 0
    assert learned(train_sequences(train.subset(np.zeros(0, dtype=np.int64)), 4)) == []


def test_the_demo_takes_a_fraction_of_the_passes() -> None:
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.prepare import prepare
    from genrec_unlearn_bench.progress import Progress

    train = prepare(find_dataset("demo"), None, Progress()).train
    inputs, targets = train_sequences(train, 50)
    assert len(inputs) < len(train) / 5
    assert (targets != PAD).sum() == len(train)
