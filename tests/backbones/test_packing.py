"""Batches in groups of similar length give what they give as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones import packing, t5
from genrec_unlearn_bench.backbones.minionerec import recommender as minionerec
from genrec_unlearn_bench.backbones.packing import in_groups, length_groups, watched
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.unlearning.anatomy import anatomy, tapped
from genrec_unlearn_bench.unlearning.likelihood import token_nll
from tests import small

LISTS = [[1, 2, 3, 4], [5], [], [6, 7], [8, 9, 10], [11], [12, 13, 14, 15], [3, 1], [2], [1, 1, 1]]


@pytest.fixture
def grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of one or two rows."""

    def pairs(lengths: Tensor) -> list[Tensor]:
        return list(lengths.argsort(descending=True, stable=True).split(2))

    for module in (t5, minionerec):
        monkeypatch.setattr(module, "length_groups", pairs)


def model(family: str) -> Any:
    return small.t5() if family == "t5" else small.causal()


def passed(recommender: Recommender, *, hidden: bool = False) -> list[Tensor]:
    """Logits of one and of several targets a history, hidden states, and all gradients."""
    recommender.module.zero_grad()
    histories = Histories.of(LISTS)
    targets = np.arange(20, 32)
    rows = torch.tensor([0, 4, 4, 9, 1, 3, 3, 3, 7, 6, 5, 2])
    context = recommender.encode(histories, hidden=hidden)
    many = recommender.decode(context, recommender.codes_of(targets), rows=rows, hidden=hidden)
    one = recommender.decode(context, recommender.codes_of(targets[:10]))
    loss = token_nll(many) + 2 * token_nll(one)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients: Any = [parameter.grad for parameter in recommender.module.parameters()]
    states = [layer * context.mask[..., None] for layer in context.hidden]
    return [many.logits, one.logits, *many.hidden, *states, *gradients]


@pytest.mark.parametrize("family", ["t5", "causal"])
@pytest.mark.parametrize("hidden", [False, True])
def test_groups_change_nothing(family: str, hidden: bool, request: pytest.FixtureRequest) -> None:
    whole = passed(model(family), hidden=hidden)
    request.getfixturevalue("grouped")
    parts = passed(model(family), hidden=hidden)
    for one, two in zip(whole, parts, strict=True):
        torch.testing.assert_close(two, one, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("family", ["t5", "causal"])
def test_who_taps_a_module_sees_the_whole_batch(family: str) -> None:
    recommender = model(family)
    assert not watched(recommender.module)
    histories = Histories.of(LISTS)
    block = anatomy(recommender).history_blocks[0].module
    with tapped([block]) as caught:
        assert watched(recommender.module)
        context = recommender.encode(histories)
        recommender.decode(context, recommender.codes_of(np.arange(len(LISTS))))
    assert len(caught[0]) == len(LISTS)
    assert not watched(recommender.module)


def test_groups_hold_every_row_once_and_at_most_so_many_positions() -> None:
    lengths = torch.tensor(np.random.default_rng(0).integers(0, 41, size=300))
    groups = length_groups(lengths)
    assert torch.equal(torch.cat(groups).sort().values, torch.arange(300))
    for group in groups:
        assert len(group) <= 8 or len(group) * int(lengths[group].max()) <= packing.CPU_POSITIONS
    assert len(groups) < 10


def test_a_batch_that_is_small_enough_stays_as_it_is() -> None:
    (whole,) = length_groups(torch.tensor([3, 9, 4]))
    assert whole.tolist() == [0, 1, 2]
    assert [group.tolist() for group in length_groups(torch.zeros(0, dtype=torch.long))] == [[]]


def test_outputs_of_groups_are_padded_and_put_back() -> None:
    (out,) = in_groups([torch.tensor([2]), torch.tensor([0, 1])], lambda rows: (torch.ones(len(rows), 4 - len(rows)),))
    assert out.tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
