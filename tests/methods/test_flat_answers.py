from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.backbones.recommender import ServingRules
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.methods.flat import Answers
from genrec_unlearn_bench.unlearning.sampling import positive_set
from tests.decoding.sessions import sids_of
from tests.unlearning.losses.test_suppression import setting


@pytest.mark.parametrize("kind", ["popular", "random", "nearest"])
def test_answers_are_leaves_of_the_trie_and_never_concept_items(kind: str) -> None:
    model, request = setting()
    answers = Answers(kind, model, request)  # type: ignore[arg-type]
    targets = np.tile(request.train.forget.targets, 20)
    drawn = answers.draw(targets)
    assert not request.items[drawn].any()
    trie = Trie.build(model.sids.codes, model.sids.level_sizes)
    leaves = {tuple(row) for row in sids_of(trie, np.arange(trie.leaves)).tolist()}
    assert {tuple(row) for row in model.codes_of(drawn).tolist()} <= leaves
    assert len(np.unique(drawn)) > 8


def test_popular_answers_are_the_hundred_with_the_most_retain_interactions(monkeypatch: pytest.MonkeyPatch) -> None:
    from genrec_unlearn_bench.methods import flat as module

    model, request = setting()
    monkeypatch.setattr(module, "POOL", 5)
    counts = np.bincount(request.train.retain.targets, minlength=64)
    pool = Answers("popular", model, request).pool
    assert sorted(counts[pool], reverse=True) == sorted(counts, reverse=True)[:5]
    drawn = Answers("popular", model, request).draw(np.repeat(request.item_ids, 50))
    assert set(drawn) == set(pool)
    assert len(Answers("random", model, request).pool) == 64 - request.items.sum()


def test_nearest_answers_are_each_targets_own_neighbours() -> None:
    model, request = setting()
    targets = np.tile(request.train.forget.targets, 10)
    drawn = Answers("nearest", model, request, neighbours=3).draw(targets)
    near = positive_set(request.features, model.sids, targets, request.items, 3)
    assert (near == drawn[:, None]).any(1).all()


def test_draws_are_seeded_and_differ_from_step_to_step() -> None:
    model, request = setting()
    targets = np.repeat(request.item_ids, 8)
    one, two = Answers("popular", model, request), Answers("popular", model, request)
    first = one.draw(targets)
    np.testing.assert_array_equal(first, two.draw(targets))
    assert (first != one.draw(targets)).any()
    other = Answers("popular", model, replace(request, seed=1)).draw(targets)
    assert (first != other).any()


def test_blocked_items_and_an_examples_own_item_are_no_answers() -> None:
    model, request = setting()
    blocked = np.zeros(64, dtype=bool)
    blocked[::2] = True
    served = model.with_serving(ServingRules(blocked=blocked))
    nothing = np.zeros_like(request.items)
    single = replace(request, kind=ConceptKind.INTERACTION, items=nothing, pairs=np.array([[0, 3]]))
    for kind in ("popular", "random", "nearest"):
        targets = np.tile(request.train.forget.targets, 40)
        drawn = Answers(kind, served, single).draw(targets)  # type: ignore[arg-type]
        assert not blocked[drawn].any()
        assert (drawn != targets).all()
    blocked[1:] = True
    with pytest.raises(BenchError, match="fewer than two items"):
        Answers("popular", model.with_serving(ServingRules(blocked=blocked)), single)
