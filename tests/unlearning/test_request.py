"""Edge cases of requests: those that are refused, and unusual ones that must work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.methods.tracer import Tracer, TracerConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.descent import DescentConfig, backward, descend
from genrec_unlearn_bench.unlearning.request import ForgetRequest, check_request
from genrec_unlearn_bench.unlearning.sampling import PairedBatch
from tests.planted import Planted


@pytest.fixture(scope="module")
def world(planted: Planted) -> Planted:
    return planted


def none_of(part: Examples) -> Examples:
    return part.subset(np.zeros(len(part), dtype=bool))


def with_train(request: ForgetRequest, forget: Examples, retain: Examples) -> ForgetRequest:
    return replace(request, train=Groups(forget, retain))


def refused(request: ForgetRequest, words: str) -> None:
    with pytest.raises(DataFault, match=words) as refusal:
        check_request(request, task="demo-brand")
    assert refusal.value.where == "demo-brand"
    assert refusal.value.hint
    assert refusal.value.exit_code == 1


def test_a_request_needs_something_to_forget_and_something_to_keep(world: Planted) -> None:
    request = world.request
    forget, retain = request.train.forget, request.train.retain
    check_request(request, task="demo-brand")
    refused(with_train(request, none_of(forget), retain), "names 8 items; 0 train examples are to be forgotten")
    refused(with_train(request, forget, none_of(retain)), "forgotten and 0 to be kept")
    refused(
        with_train(request, none_of(forget), none_of(retain)), "0 train examples are to be forgotten and 0 to be kept"
    )
    refused(replace(request, items=np.zeros_like(request.items)), "names 0 items")


def test_single_interactions_are_counted_by_pairs(world: Planted) -> None:
    request = replace(world.request, kind=ConceptKind.INTERACTION, items=np.zeros_like(world.request.items))
    refused(request, "names 0 interactions")
    check_request(replace(request, pairs=np.array([[0, 3]])), task="demo-brand")


def test_empty_validation_parts_are_no_fault(world: Planted) -> None:
    valid = Groups(none_of(world.request.valid.forget), none_of(world.request.valid.retain))
    check_request(replace(world.request, valid=valid), task="demo-brand")


def concept_histories(request: ForgetRequest, rows: int) -> Examples:
    """Forget examples whose histories hold concept items alone."""
    ids = request.item_ids
    walks = np.concatenate([np.roll(ids, row)[:4] for row in range(rows)])
    starts = np.arange(rows, dtype=np.int64) * 4
    owners = np.repeat(np.arange(rows, dtype=np.int64), 4)
    return Examples(
        users=np.arange(rows, dtype=np.int64),
        targets=walks[starts + 3],
        times=starts + 3,
        events=walks,
        event_users=owners,
        starts=starts,
        ends=starts + 3,
    )


def finite(weights: dict[str, torch.Tensor]) -> bool:
    return all(bool(weight.isfinite().all()) for weight in weights.values())


@pytest.fixture(scope="module")
def odd(world: Planted) -> ForgetRequest:
    """Six forget examples, all of whose histories are concept items, fewer than any batch."""
    forget = concept_histories(world.request, 6)
    histories = forget.histories(4)
    assert world.request.items[histories.items[histories.items >= 0]].all()
    return with_train(world.request, forget, world.request.train.retain)


@pytest.mark.parametrize("clean_history", [False, True])
def test_tracer_serves_concept_histories_and_a_batch_larger_than_the_forget_set(
    world: Planted, odd: ForgetRequest, clean_history: bool
) -> None:
    check_request(odd, task="planted")
    progress = Progress()
    config = TracerConfig(epochs=3, hard_epochs=1, batch_size=512, lr=1e-3, clean_history=clean_history)
    model = Tracer(config).unlearn(world.original, odd, progress)
    assert not progress.diverged
    assert len(progress.steps) == 3, "one step an epoch"
    assert finite(model.module.state_dict())


def test_tracer_serves_retain_histories_of_concept_items_alone(world: Planted, odd: ForgetRequest) -> None:
    retain = replace(odd.train.forget, targets=np.full(6, 1, dtype=np.int64))
    progress = Progress()
    config = TracerConfig(epochs=2, hard_epochs=1, batch_size=512, clean_history=True)
    model = Tracer(config).unlearn(world.original, with_train(odd, odd.train.forget, retain), progress)
    assert not progress.diverged
    assert finite(model.module.state_dict())


def test_descend_serves_them_too(world: Planted, odd: ForgetRequest) -> None:
    model = world.original.clone()
    sizes = []

    def step(batch: PairedBatch) -> dict[str, torch.Tensor]:
        terms = {}
        sizes.append((len(batch.forget), len(batch.retain)))
        for name, part, sign in (("forget", batch.forget, -0.1), ("retain", batch.retain, 1.0)):
            output = model.forward(part.histories(model.history_limit), part.targets)
            terms[name] = -sign * output.mean(output.token_log_probs())
        backward(terms["forget"] + terms["retain"])
        return {name: term.detach() for name, term in terms.items()}

    progress = Progress()
    descend(model, odd, DescentConfig(epochs=2, batch_size=512), step, progress)
    assert sizes == [(6, 6), (6, 6)]
    assert not progress.diverged
    assert finite(model.module.state_dict())
