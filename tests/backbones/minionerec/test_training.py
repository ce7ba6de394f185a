from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import Scale
from genrec_unlearn_bench.backbones.minionerec.backbone import MiniOneRec, MiniOneRecConfig
from genrec_unlearn_bench.backbones.minionerec.prompts import BETWEEN, NO_ITEMS, TEMPLATES, UNTITLED
from genrec_unlearn_bench.backbones.minionerec.training import PrefixChains, SupervisedMixture, token_losses
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.training import NextItem
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.items import ItemTable
from tests.backbones.minionerec.models import ITEMS, pretrained, scratch, spread


def catalogue(untitled: int = 7) -> ItemTable:
    titles = tuple("" if item == untitled else f"Item no. {item} of shop {item % 5}" for item in range(ITEMS))
    nothing = ("",) * ITEMS
    ids = tuple(str(item) for item in range(ITEMS))
    return ItemTable(ids, titles, nothing, nothing, nothing, np.full(ITEMS, np.nan), ((),) * ITEMS, nothing)


def examples() -> Examples:
    """Every prefix of a few walks, one of them twice, and the windows of one longer than the limit."""
    walks = [[1, 2, 3, 4], [1, 2, 3, 4], [5, 6, 7, 8, 9, 10, 11, 12], [20, 21], [2, 3, 30]]
    events = np.concatenate(walks).astype(np.int64)
    starts, ends, offset = [], [], 0
    for walk in walks:
        starts += [offset] * len(walk)
        ends += range(offset, offset + len(walk))
        offset += len(walk)
    end = np.asarray(ends, dtype=np.int64)
    return Examples(
        users=np.zeros(len(end), dtype=np.int64),
        targets=events[end],
        times=end,
        events=events,
        event_users=np.zeros(len(events), dtype=np.int64),
        starts=np.asarray(starts, dtype=np.int64),
        ends=end,
    )


def data(known: np.ndarray | None = None) -> TrainingData:
    marked = np.ones(ITEMS, dtype=bool) if known is None else known
    return TrainingData(examples(), examples(), catalogue(), np.zeros((ITEMS, 2), dtype=np.float32), marked)


def mixed(**fields: bool) -> MiniOneRecConfig:
    return MiniOneRecConfig(checkpoint="a folder", **fields)


@pytest.mark.parametrize("ragged", [False, True])
def test_chains_have_the_loss_and_the_gradient_of_their_examples(ragged: bool) -> None:
    model = scratch(ragged=ragged)
    part = examples()
    chains = PrefixChains(model, part)
    assert chains.counts.sum() == len(part)
    assert len(chains.items) == 6  # four walks, and two windows that start later than the limit of five allows
    whole = chains.loss(np.arange(len(chains.items)))
    whole.backward()
    gradients = [parameter.grad.clone() for parameter in model.module.parameters()]
    model.module.zero_grad()
    plain = NextItem(model, part).loss(np.arange(len(part)))
    plain.backward()
    torch.testing.assert_close(whole, plain, atol=1e-5, rtol=1e-5)
    for ours, parameter in zip(gradients, model.module.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_the_loss_is_that_of_transformers_on_the_response_alone(tmp_path: Path, tied: bool) -> None:
    """Each sample written by hand, prompt labels -100, through the model's own loss; six tasks, each by itself."""
    model = pretrained(tmp_path / "qwen", tied=tied, title_tokens=6)
    spread(model.model)
    mixture = SupervisedMixture(model, data(), mixed(titles_to_title=True))
    items, part = catalogue(), examples()

    def ids(text: str) -> list[int]:
        return model.text.tokenizer.encode(text).ids

    def sid(item: int) -> list[list[int]]:
        return model.sid_tokens[item].tolist()

    def title(item: int) -> list[int]:
        return ids(items.titles[item] or UNTITLED)[:6]

    def prompt(task: str, elements: list[list[int]]) -> list[int]:
        one = TEMPLATES[task]
        out = ids(one.head)
        if not elements:
            return out + ids(NO_ITEMS + one.tail)
        for place, element in enumerate(elements):
            out += (ids(BETWEEN) if place else []) + element
        return out + ids(one.tail)

    batch = part.histories(5)
    history = [[item for item in row if item >= 0] for row in batch.items.tolist()]
    targets = part.targets.tolist()
    titled = [item for item in range(ITEMS) if items.titles[item]]
    samples = [
        [(prompt("next_item", [sid(i) for i in row]), sid(t)) for row, t in zip(history, targets, strict=True)],
        [(prompt("title_to_sid", [title(i)]), sid(i)) for i in titled],
        [(prompt("sid_to_title", [sid(i)]), title(i)) for i in titled],
        [
            (prompt("next_title", [sid(i) for i in row]), title(t))
            for row, t in zip(history, targets, strict=True)
            if items.titles[t]
        ],
        [(prompt("titles_to_sid", [title(i) for i in row]), sid(t)) for row, t in zip(history, targets, strict=True)],
        [
            (prompt("titles_to_title", [title(i) for i in row]), title(t))
            for row, t in zip(history, targets, strict=True)
            if items.titles[t]
        ],
    ]
    assert mixture.sizes == tuple(len(task) for task in samples)
    end = [*ids("\n"), model.shape.end_token]
    first, sums, tokens = 0, 0.0, 0
    for task in samples:
        total = count = 0
        for before, response in task:
            row = before + response + end
            labels = [-100] * len(before) + response + end
            loss = model.model(input_ids=torch.tensor([row]), labels=torch.tensor([labels])).loss
            size = len(response) + len(end)
            total, count = total + float(loss) * size, count + size
        ours = mixture.loss(np.arange(first, first + len(task)))
        assert float(ours) == pytest.approx(total / count, rel=1e-4)
        first, sums, tokens = first + len(task), sums + total, tokens + count
    everything = mixture.loss(np.random.default_rng(0).permutation(first))
    assert float(everything) == pytest.approx(sums / tokens, rel=1e-4)
    assert len(mixture.lengths) == first


def test_samples_of_unknown_items_are_left_out(tmp_path: Path) -> None:
    model = pretrained(tmp_path / "qwen")
    known = np.arange(ITEMS) % 4 > 0
    mixture = SupervisedMixture(model, data(known), mixed(ending=False))
    assert mixture.sizes[1] == mixture.sizes[2] == int(known.sum()) - 1  # one of them has no title
    alone = SupervisedMixture(model, data(known), mixed(text_tasks=False, titles_to_title=True))
    assert alone.sizes == (len(examples()),)


def test_five_tasks_and_six_are_those_of_their_presets() -> None:
    """Only ``official`` has the sixth task and serves with words that training never shows."""
    for scale, (sixth, unseen) in {Scale.PAPER: (False, False), Scale.OFFICIAL: (True, True)}.items():
        config = MiniOneRec.presets[scale]
        assert (config.text_tasks, config.titles_to_title, config.unseen_prompt) == (True, sixth, unseen)


@torch.no_grad()
def test_alignment_is_scored_without_the_ending(tmp_path: Path) -> None:
    model = pretrained(tmp_path / "qwen")
    spread(model.model)
    assert Capability.TEXT_TASKS in model.capabilities
    items, titles = np.array([3, 30, 9]), ["Item", "", "Item no. 9 of shop 4"]
    to_sid = model.align(items, titles, to="sid")
    to_title = model.align(items, titles, to="title")
    assert to_title.mask is not None
    assert to_title.mask.sum(1).tolist() == [len(model.text.tokenizer.encode(title).ids) for title in titles]
    for index, (item, title) in enumerate(zip(items, titles, strict=True)):
        sid, text = model.sid_tokens[item].tolist(), model.text.tokenizer.encode(title).ids
        for step, one, source, target in (
            (to_sid, TEMPLATES["title_to_sid"], text, sid),
            (to_title, TEMPLATES["sid_to_title"], sid, text),
        ):
            before = model.text.tokenizer.encode(one.head).ids + source + model.text.tokenizer.encode(one.tail).ids
            logits = model.model(input_ids=torch.tensor([before + target])).logits[0, len(before) - 1 : -1]
            torch.testing.assert_close(step.logits[index, : len(target)], logits, atol=2e-5, rtol=1e-5)
            assert step.labels[index, : len(target)].tolist() == target


def test_chunked_losses_and_gradients_are_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    head = torch.nn.Linear(8, 50)
    states = torch.randn(23, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(23)
    whole = token_losses(states, labels, head, 50)
    whole.sum().backward()
    expected = states.grad.clone(), head.weight.grad.clone()
    states.grad = head.weight.grad = None
    monkeypatch.setattr("genrec_unlearn_bench.backbones.minionerec.training._ELEMENTS", 200)
    parts = token_losses(states, labels, head, 50)
    parts.sum().backward()
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close((states.grad, head.weight.grad), expected)
