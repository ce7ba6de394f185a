"""What is carved out is seen by no training, matches the forget set, and is the same for all tasks of a dataset."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.data import concepts
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.holdout import SHARE, carve
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.progress import Progress

TASKS = ("demo-brand", "demo-price", "demo-item", "demo-interaction")

Pairs = set[tuple[int, int]]


@pytest.fixture(scope="module")
def demo() -> Dataset:
    return prepare(find_dataset("demo", None), None, Progress())


def resolved(name: str, dataset: Dataset) -> ForgetSplit:
    return concepts.resolve(find_task(name, None), dataset)


def targets(examples: Examples) -> Pairs:
    return set(zip(examples.users.tolist(), examples.targets.tolist(), strict=True))


def inputs(examples: Examples) -> Pairs:
    histories = examples.histories()
    rows, places = np.nonzero(histories.items >= 0)
    return set(zip(histories.users[rows].tolist(), histories.items[rows, places].tolist(), strict=True))


@pytest.mark.parametrize("name", TASKS)
def test_nothing_that_is_trained_or_validated_has_a_held_pair(name: str, demo: Dataset) -> None:
    lean, split, holdout = carve(demo, resolved(name, demo))
    held = {(user, item) for user, item in holdout.pairs.tolist()}
    sides = (split.train.forget, split.train.retain, split.valid.forget, split.valid.retain)
    for part in (lean.train, lean.valid, *sides):
        assert len(part)
        assert not targets(part) & held
        assert not inputs(part) & held
        assert (part.ends > part.starts).all()
    assert not {tuple(pair) for pair in split.pairs.tolist()} & held


@pytest.mark.parametrize("name", TASKS)
def test_what_is_held_out_matches_what_is_forgotten(name: str, demo: Dataset) -> None:
    task = resolved(name, demo)
    _, split, holdout = carve(demo, task)
    held = {(user, item) for user, item in holdout.pairs.tolist()}
    assert targets(holdout.forget) <= held
    assert targets(holdout.retain) <= held
    assert not inputs(holdout.forget) & held  # scored on histories as the members have them
    if name == "demo-interaction":
        assert len(holdout.retain) == 0
    else:
        assert task.items[holdout.forget.targets].all()
        assert not task.items[holdout.retain.targets].any()
        share = len(holdout.forget) / (len(holdout.forget) + len(split.train.forget))
        assert share == pytest.approx(SHARE, abs=0.03)


def test_all_tasks_of_a_dataset_share_it(demo: Dataset) -> None:
    found = [carve(demo, resolved(name, demo))[2].digest for name in TASKS]
    assert len(set(found)) == 1
    assert carve(demo, resolved(TASKS[0], demo), share=0.05)[2].digest != found[0]


def test_its_size(demo: Dataset) -> None:
    pairs = len(targets(demo.train))
    assert len(carve(demo, resolved(TASKS[0], demo))[2].pairs) == round(SHARE * pairs)


def test_test_examples_stay_but_for_interactions_that_are_no_longer_asked_to_be_forgotten(demo: Dataset) -> None:
    for name in TASKS:
        task = resolved(name, demo)
        _, split, holdout = carve(demo, task)
        assert len(split.test.retain) == len(task.test.retain)
        gone = len(task.test.forget) - len(split.test.forget)
        held = {(user, item) for user, item in holdout.pairs.tolist()}
        expected = sum(pair in held for pair in zip(task.test.forget.users, task.test.forget.targets, strict=True))
        assert gone == (expected if name == "demo-interaction" else 0)
