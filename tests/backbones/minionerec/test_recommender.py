from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.minionerec.prompts import BETWEEN, NO_ITEMS, TEMPLATES
from genrec_unlearn_bench.backbones.recommender import Capability, ServingRules, SoftSids
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import CapabilityMissing, DataFault
from genrec_unlearn_bench.sids.table import SidTable
from tests.backbones.minionerec.models import ITEMS, SIZES, histories, pretrained, scratch, spread, table
from tests.decoding.hugging_face import generate

TARGETS = np.array([5, 0, 17, 33, 12, 39])


def written(model, row: list[int]) -> list[int]:
    """One prompt as a reader of the docs would write it."""
    sids = model.sid_tokens.tolist()
    items = row[-model.history_limit :]
    if model.text is None:
        out = [1]
        for item in items:
            out += [token for token in sids[item] if token >= 0] + [3]
        return out
    words, ids = (
        TEMPLATES["unseen" if model.shape.unseen_prompt else "next_item"],
        lambda text: model.text.tokenizer.encode(text).ids,
    )
    out = ids(words.head)
    if not items:
        return out + ids(NO_ITEMS + words.tail)
    for place, item in enumerate(items):
        out += (ids(BETWEEN) if place else []) + sids[item]
    return out + ids(words.tail)


def rows_of(batch) -> list[list[int]]:
    return [[item for item in row if item >= 0] for row in batch.items.tolist()]


@pytest.fixture(params=["scratch-tied", "scratch-untied", "text-tied", "text-untied", "unseen-tied"])
def model(request: pytest.FixtureRequest, tmp_path: Path):
    kind, tied = request.param.split("-")
    if kind == "scratch":
        return scratch(tied=tied == "tied")
    made = pretrained(tmp_path / "qwen", tied=tied == "tied", unseen_prompt=kind == "unseen")
    spread(made.model)
    return made


def test_prompts_are_padded_on_the_left_and_say_which_item_stands_where(model) -> None:
    batch = histories()
    layout = model.prompts(batch)
    for index, row in enumerate(rows_of(batch)):
        tokens = written(model, row)
        assert layout.tokens[index, layout.mask[index]].tolist() == tokens
        assert layout.mask[index].tolist() == [False] * (layout.mask.shape[1] - len(tokens)) + [True] * len(tokens)
        at = layout.items[index]
        assert at[at >= 0].tolist() == [item for item in row[-5:] for _ in SIZES]
        assert layout.levels[index, at >= 0].tolist() == [0, 1, 2] * len(row[-5:])
        assert layout.places[index, at >= 0].tolist() == [place for place in range(len(row[-5:])) for _ in SIZES]


@torch.no_grad()
def test_logits_and_hidden_states_are_those_of_plain_transformers(model) -> None:
    """Each row alone, without padding, through the model's own forward."""
    batch = histories()
    step = model.forward(batch, TARGETS, hidden=True)
    context = model.encode(batch, hidden=True)
    for index, row in enumerate(rows_of(batch)):
        prompt = written(model, row)
        sid = model.sid_tokens[TARGETS[index]].tolist()
        plain = model.model(input_ids=torch.tensor([prompt + sid]), output_hidden_states=True)
        places = slice(len(prompt) - 1, len(prompt) + 2)
        torch.testing.assert_close(step.logits[index], plain.logits[0, places], atol=2e-5, rtol=1e-5)
        assert step.labels[index].tolist() == sid
        assert len(step.hidden) == len(plain.hidden_states) == model.shape.network.layers + 1
        for ours, theirs in zip(step.hidden, plain.hidden_states, strict=True):
            torch.testing.assert_close(ours[index], theirs[0, places], atol=2e-5, rtol=1e-5)
        for ours, theirs in zip(context.hidden, plain.hidden_states, strict=True):
            torch.testing.assert_close(ours[index, -len(prompt) :], theirs[0, : len(prompt)], atol=2e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("ragged", [False, True])
def test_targets_that_share_a_history_are_what_they_are_one_by_one(ragged: bool) -> None:
    model = scratch(ragged=ragged)
    batch = histories()
    rows = torch.tensor([4, 0, 0, 2, 4, 1, 0, 5, 3])
    items = np.array([3, 8, 3, 0, 30, 11, 25, 6, 9])
    packed = model.decode(model.encode(batch), model.codes_of(items), rows=rows, hidden=True)
    assert (packed.mask is not None) == ragged
    for index, (row, item) in enumerate(zip(rows.tolist(), items, strict=True)):
        alone = model.forward(batch.rows(np.array([row])), np.array([item]), hidden=True)
        real = slice(None) if alone.mask is None else alone.mask[0]
        torch.testing.assert_close(packed.logits[index][real], alone.logits[0][real], atol=2e-5, rtol=1e-5)
        for ours, theirs in zip(packed.hidden, alone.hidden, strict=True):
            torch.testing.assert_close(ours[index][real], theirs[0][real], atol=2e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("beam", [3, 8])
def test_lists_are_those_of_generate(model, beam: int) -> None:
    """HF's constrained beam search on the same prompts: left padding, length penalty 0, full-vocabulary scores."""
    batch = histories()
    layout = model.prompts(batch)
    codes, offsets = model.sids.codes, model.vocabulary.offsets
    tokens, scores = generate(model.model, layout.tokens, layout.mask, codes, offsets, beam)
    trie = Trie.build(codes, SIZES)
    found = model.recommend(batch, beam, beam=beam)
    sids = (tokens - torch.tensor(offsets)).tolist()
    first_item = {tuple(code): item for item, code in reversed(list(enumerate(codes.tolist())))}
    for row in range(len(batch)):
        ranked = [first_item[tuple(sid)] for sid, score in zip(sids[row], scores[row], strict=True) if score > -1e8]
        ours = [item for item in found.items[row].tolist() if first_item[tuple(codes[item].tolist())] == item]
        assert ours == ranked[: len(ours)]
        assert found.log_probs[row, 0] == pytest.approx(float(scores[row, 0]), abs=1e-4)
    assert trie.leaves == len(first_item)


@torch.no_grad()
def test_a_list_of_the_whole_catalogue_has_the_scores_of_teacher_forcing(model) -> None:
    batch = histories()
    found = model.recommend(batch, ITEMS, exact=True)
    for row in range(len(batch)):
        one = batch.rows(np.full(ITEMS, row))
        scores = model.target_log_probs(one, found.items[row]).sum(1)
        np.testing.assert_allclose(found.log_probs[row], scores, atol=1e-4)


@torch.no_grad()
def test_soft_sids_that_are_certain_are_hard_ones(model) -> None:
    batch = histories()
    row_of_item = torch.full((ITEMS,), -1)
    row_of_item[[3, 9, 34]] = torch.arange(3)
    codes = torch.from_numpy(model.sids.codes[[3, 9, 34]])
    weights = tuple(torch.eye(size)[codes[:, level]] for level, size in enumerate(SIZES))
    plain, soft = model.encode(batch), model.encode(batch, soft=SoftSids(row_of_item, weights))
    torch.testing.assert_close(plain.state, soft.state)
    other = tuple(weight.roll(1, 1) for weight in weights)
    changed = model.encode(batch, soft=SoftSids(row_of_item, other)).state != plain.state
    marked = torch.isin(plain.position_items, torch.tensor([3, 9, 34]))
    assert changed.any(-1).equal(marked)


def test_gradients_reach_soft_tokens() -> None:
    model = scratch()
    weights = tuple(torch.full((1, size), 1 / size, requires_grad=True) for size in SIZES)
    row_of_item = torch.full((ITEMS,), -1)
    row_of_item[9] = 0
    context = model.encode(histories(), soft=SoftSids(row_of_item, weights))
    (-model.decode(context, model.codes_of(TARGETS)).token_log_probs().mean()).backward()
    assert all(weight.grad is not None and bool((weight.grad != 0).all()) for weight in weights)


def test_serving_rules_and_new_sids(model) -> None:
    batch = histories()
    blocked = np.zeros(ITEMS, dtype=bool)
    blocked[model.recommend(batch, 5).items[:, 0]] = True
    served = model.with_serving(ServingRules(blocked=blocked, ignored=blocked))
    assert not blocked[served.recommend(batch, 10, beam=20).items].any()
    kept = [[item for item in row if not blocked[item]] for row in rows_of(batch)]
    assert served.prompts(batch).items.amax(1).tolist() == [max(row[-5:], default=-1) for row in kept]
    moved = table(seed=9)
    again = model.with_sids(moved)
    assert again.model is model.model
    assert again.sid_tokens[5].tolist() == [
        o + c for o, c in zip(model.vocabulary.offsets, moved.codes[5], strict=True)
    ]


def test_a_clone_is_independent_and_a_saved_model_is_the_same(model, tmp_path: Path) -> None:
    batch = histories()
    copy = model.clone()
    with torch.no_grad():
        copy.model.model.embed_tokens.weight.add_(1.0)
    before = model.target_log_probs(batch, TARGETS)
    assert not torch.allclose(copy.target_log_probs(batch, TARGETS), before)
    rules = ServingRules(blocked=np.arange(ITEMS) == 4)
    model.with_serving(rules).save(tmp_path / "saved")
    again = type(model).load(tmp_path / "saved")
    assert torch.equal(again.target_log_probs(batch, TARGETS), before)
    assert again.shape == model.shape
    assert again.serving.blocked is not None
    assert again.capabilities == model.capabilities
    tied = again.model.lm_head.weight is again.model.model.embed_tokens.weight
    assert tied == model.shape.network.tied
    assert sorted(path.suffix for path in (tmp_path / "saved").iterdir() if path.is_file()) in (
        [".json", ".safetensors", ".safetensors"],
        [".json", ".json", ".safetensors", ".safetensors"],
    )


def test_the_table_of_another_catalogue_is_refused() -> None:
    model = scratch()
    fewer = SidTable(model.sids.codes[:-1], model.sids.level_sizes, model.sids.quantised_levels)
    with pytest.raises(DataFault, match="another catalogue"):
        model.with_sids(fewer)


def test_without_text_there_is_nothing_to_align() -> None:
    model = scratch()
    assert Capability.TEXT_TASKS not in model.capabilities
    with pytest.raises(CapabilityMissing):
        model.align(np.array([1]), ["a title"], to="sid")
