"""retain-only and relabel against the methods that they are controls of, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.methods.random_reassign import RandomReassign, RandomReassignConfig
from genrec_unlearn_bench.methods.relabel import Relabel, RelabelConfig
from genrec_unlearn_bench.methods.retain_only import RetainOnly, RetainOnlyConfig
from genrec_unlearn_bench.methods.tracer import Tracer, TracerConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.planted import Planted

SHORT: dict[str, Any] = {"lr": 1e-3, "batch_size": 64}


def same_weights(one: Recommender, other: Recommender) -> bool:
    state = other.module.state_dict()
    return all(torch.equal(value, state[key]) for key, value in one.module.state_dict().items())


def some(request: ForgetRequest, count: int = 150) -> ForgetRequest:
    rows = np.arange(count)
    return replace(request, train=Groups(request.train.forget.subset(rows), request.train.retain))


def test_retain_only_is_tracer_without_its_other_terms_and_without_moved_tokens(planted: Planted) -> None:
    request = some(planted.request)
    bare = TracerConfig(**SHORT, reassign=False, epochs=2, lambda_forget=0.0, lambda_coherence=0.0)
    expected = Tracer(bare).unlearn(planted.original, request, Progress())
    found = RetainOnly(RetainOnlyConfig(**SHORT, epochs=2)).unlearn(planted.original, request, Progress())
    assert same_weights(found, expected)
    assert not same_weights(found, planted.original)


def test_relabel_is_random_reassign_without_its_other_terms(planted: Planted) -> None:
    request = some(planted.request)
    bare = RandomReassignConfig(**SHORT, epochs=2, lambda_forget=0.0, lambda_coherence=0.0)
    expected = RandomReassign(bare).unlearn(planted.original, request, Progress())
    found = Relabel(RelabelConfig(**SHORT, epochs=2)).unlearn(planted.original, request, Progress())
    assert found.sids.digest == expected.sids.digest != planted.table.digest
    assert same_weights(found, expected)


def test_relabelling_alone_changes_no_weight_and_no_history_without_the_concept(planted: Planted) -> None:
    model = Relabel(RelabelConfig(epochs=0)).unlearn(planted.original, planted.request, Progress())
    assert same_weights(model, planted.original)
    retain = planted.request.train.retain
    limit = model.history_limit
    untouched = retain.subset(~retain.history_contains(planted.request.items, limit))
    assert 0 < len(untouched) < len(retain)

    def scores(recommender: Recommender, part: Examples) -> torch.Tensor:
        return recommender.target_log_probs(part.histories(limit), part.targets)

    assert torch.equal(scores(model, untouched), scores(planted.original, untouched))


def test_labels_of_forget_examples_are_not_read(planted: Planted) -> None:
    request = some(planted.request)
    forget = request.train.forget
    other = replace(forget, targets=np.roll(forget.targets, 1) * 0 + int(np.flatnonzero(~request.items)[0]))
    changed = replace(request, train=Groups(other, request.train.retain))
    config = RetainOnlyConfig(**SHORT, epochs=1)
    one, two = (RetainOnly(config).unlearn(planted.original, each, Progress()) for each in (request, changed))
    assert same_weights(one, two)


def test_clean_histories_hold_nothing_to_be_forgotten(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    from genrec_unlearn_bench.methods import retain_only

    seen: list[Examples] = []
    monkeypatch.setattr(
        retain_only,
        "train_with_discrete_sids",
        lambda model, objective, **_: seen.append(objective.request.train.retain),
    )
    config = RetainOnlyConfig(clean_history=True)
    RetainOnly(config).unlearn(planted.original, planted.request, Progress())
    pairs = np.unique(np.stack([planted.request.train.forget.users, planted.request.train.forget.targets], 1), axis=0)
    nothing = np.zeros_like(planted.request.items)
    single = replace(planted.request, kind=ConceptKind.INTERACTION, items=nothing, pairs=pairs)
    RetainOnly(config).unlearn(planted.original, single, Progress())
    for part in seen:
        assert len(part) > 0
        assert (part.ends > part.starts).all()
    marked = planted.request.items
    assert not any(marked[seen[0].events[a:b]].any() for a, b in zip(seen[0].starts, seen[0].ends, strict=True))
    gone = {(int(user), int(item)) for user, item in pairs}
    for user, history in zip(seen[1].users, seen[1].histories().items, strict=True):
        assert not any((int(user), int(item)) in gone for item in history if item >= 0)


def test_nothing_left_to_train_on_is_an_error(planted: Planted) -> None:
    everything = replace(planted.request, items=np.ones_like(planted.request.items))
    with pytest.raises(DataFault, match="no retain example has a history left"):
        RetainOnly(RetainOnlyConfig(clean_history=True)).unlearn(planted.original, everything, Progress())


def test_relabel_refuses_requests_that_name_no_item() -> None:
    assert ConceptKind.INTERACTION not in Relabel.kinds
    assert Relabel.kinds == set(ConceptKind) - {ConceptKind.INTERACTION}
