"""Every method on requests that are small, crowded or lopsided, and twice with the same seed; a few steps each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.contract.calls import fingerprint
from genrec_unlearn_bench.contract.check import reduced_fields
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class, methods
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.planted import Planted
from tests.smoke.matrix import examine

pytestmark = pytest.mark.slow

NAMES = [name for name, entry in methods().items() if entry.kind == "method" and not entry.variant_of]

each_method = pytest.mark.parametrize("name", NAMES)


def made(name: str, **changes: Any) -> UnlearningMethod[Any]:
    found: type[UnlearningMethod[Any]] = load_class(find_method(name), UnlearningMethod)  # type: ignore[type-abstract]
    wanted = {key: value for key, value in changes.items() if key in found.Config.model_fields}
    return found(found.Config.model_validate({**reduced_fields(name, found.Config), **wanted}))


def found_wrong(planted: Planted, name: str, request: ForgetRequest, **changes: Any) -> list[str]:
    """What is wrong with the method's run on the request."""
    return examine(made(name, **changes), planted.original, request, planted.test)[1]


def some(part: Examples, count: int) -> Examples:
    return part.subset(np.arange(min(count, len(part)), dtype=np.int64))


def asked(planted: Planted, forget: Examples, retain: int = 200) -> ForgetRequest:
    """The planted request with other forget examples and fewer retain ones."""
    request = planted.request
    return replace(request, train=Groups(forget, some(request.train.retain, retain)))


def only_concept_items(part: Examples, concept: np.ndarray) -> Examples:
    """The same targets behind histories of nothing but concept items: every event that is none becomes one."""
    items = np.flatnonzero(concept)
    events = np.where(concept[part.events], part.events, items[part.events % len(items)])
    return replace(part, events=events.astype(np.int64))


@each_method
def test_histories_of_concept_items_alone(planted: Planted, name: str) -> None:
    marked = planted.request.items
    forget = only_concept_items(some(planted.request.train.forget, 60), marked)
    read = forget.histories(4).items
    assert marked[read[read >= 0]].all()
    assert found_wrong(planted, name, asked(planted, forget)) == []


@each_method
def test_a_batch_larger_than_the_forget_set(planted: Planted, name: str) -> None:
    few = some(planted.request.train.forget, 40)
    assert found_wrong(planted, name, asked(planted, few), batch_size=4096) == []


@each_method
def test_one_forget_example(planted: Planted, name: str) -> None:
    assert found_wrong(planted, name, asked(planted, some(planted.request.train.forget, 1))) == []


@each_method
def test_same_seed_same_bits(planted: Planted, name: str) -> None:
    request = asked(planted, some(planted.request.train.forget, 60))

    def state() -> Recommender:
        return made(name).unlearn(planted.original, request, Progress())

    assert fingerprint(state()) == fingerprint(state())
