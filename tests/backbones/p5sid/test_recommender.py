from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.p5sid.prompts import PROMPTS
from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender
from genrec_unlearn_bench.backbones.recommender import Capability, ServingRules, SoftSids
from genrec_unlearn_bench.data.examples import Histories
from tests.backbones.p5sid.models import TABLES, recommender, written

LISTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [], [40, 41, 60, 61]]
USERS = [0, 5, -1, 2, 77]
HISTORIES = Histories.of(LISTS, users=USERS)


def by_hand(model: P5Recommender, prompt: int, row: int) -> torch.Tensor:
    """Input embeddings of plain Hugging Face plus whole-word embeddings."""
    ids, places = written(model, prompt, USERS[row], LISTS[row])
    embeds = model.model.get_input_embeddings()(ids)
    if model.shape.whole_words:
        embeds = embeds + model.model.whole_words.weight[places]
    return embeds


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(("separator", "whole_words"), [(True, 64), (False, 64), (True, 0)])
def test_the_encoder_reads_the_prompt_written_by_hand(kind: str, separator: bool, whole_words: int) -> None:
    model = recommender(kind, separator=separator, whole_words=whole_words)
    for prompt in (0, 1, len(PROMPTS) - 2):
        embeds, mask, items = model._inputs(HISTORIES, prompts=torch.full((len(LISTS),), prompt))
        for row, history in enumerate(LISTS):
            expected = by_hand(model, prompt, row)[0]
            length = len(expected)
            assert int(mask[row].sum()) == length
            assert bool(mask[row, :length].all())
            torch.testing.assert_close(embeds[row, :length], expected, rtol=0, atol=1e-6)
            shown = items[row][items[row] >= 0].tolist()
            lengths = (model.sids.codes[history] >= 0).sum(1) - (model.sids.tree is not None) if history else []
            assert shown == np.repeat(history, lengths).tolist()


@pytest.mark.parametrize("kind", TABLES)
def test_logits_are_those_of_plain_transformers_for_any_mixture_of_prompts(kind: str) -> None:
    model = recommender(kind)
    targets = np.array([20, 21, 22, 23, 24])
    prompts = torch.tensor([0, 3, 1, 2, 9])
    ours = model.prompted(HISTORIES, targets, prompts)
    for row in range(len(LISTS)):
        sid = model.sids.codes[targets[row]]
        real = sid >= 0
        labels = torch.from_numpy((sid + np.asarray(model.vocabulary.offsets))[real])[None]
        plain = model.model(inputs_embeds=by_hand(model, int(prompts[row]), row), labels=labels)
        real_at = torch.from_numpy(real)
        torch.testing.assert_close(ours.logits[row][real_at], plain.logits[0], rtol=1e-5, atol=2e-5)
        assert ours.labels[row][real_at].tolist() == labels[0].tolist()
        total = ours.token_log_probs()[row].sum()
        torch.testing.assert_close(total, -plain.loss * int(real.sum()), rtol=1e-5, atol=2e-5)


def test_prompts_differ_and_the_fixed_one_recommends() -> None:
    model = recommender("sequential")
    targets = np.array([20, 21, 22, 23, 24])
    fixed = model.forward(HISTORIES, targets).logits
    same = model.prompted(HISTORIES, targets, torch.zeros(5, dtype=torch.long)).logits
    other = model.prompted(HISTORIES, targets, torch.ones(5, dtype=torch.long)).logits
    torch.testing.assert_close(fixed, same)
    assert not torch.allclose(fixed, other)


def test_unknown_users_are_one_word_and_known_ones_differ() -> None:
    model = recommender("rqvae")
    logits = model.forward(Histories.of([[1, 2]] * 4, users=[-1, 2, 900, 0]), np.array([3, 3, 3, 3])).logits
    torch.testing.assert_close(logits[0], logits[1])  # User 2 was not seen in training.
    torch.testing.assert_close(logits[0], logits[2])
    assert not torch.allclose(logits[0], logits[3])


@pytest.mark.parametrize("kind", ["sequential", "collaborative"])
def test_exact_search_sums_every_token_of_a_ragged_sid_its_end_included(kind: str) -> None:
    model = recommender(kind)
    assert len(np.unique((model.sids.codes >= 0).sum(1))) > 1, "the table is meant to be ragged"
    exact = model.recommend(HISTORIES, 64, exact=True)
    wide = model.recommend(HISTORIES, 64, beam=64)
    for row in range(len(LISTS)):
        alone = HISTORIES.rows(np.full(64, row))
        brute = model.target_log_probs(alone, np.arange(64)).sum(1).numpy()
        order = np.argsort(-brute, kind="stable")
        np.testing.assert_allclose(exact.log_probs[row], brute[order], atol=2e-5)
        np.testing.assert_allclose(brute[exact.items[row]], brute[order], atol=2e-5)
        np.testing.assert_allclose(wide.log_probs[row], exact.log_probs[row], atol=2e-5)
        assert sorted(exact.items[row].tolist()) == list(range(64))
        # All mass there is: chances of different SIDs never add up to more than one, as none is another's prefix.
        assert np.exp(brute.astype(np.float64)).sum() <= 1 + 1e-5


@pytest.mark.parametrize("kind", ["sequential", "collaborative"])
def test_lists_are_those_of_generate_with_a_prefix_function(kind: str) -> None:
    from transformers import GenerationConfig

    model = recommender(kind)
    table, offset = model.sids, model.vocabulary.offsets[0]
    assert table.tree is not None
    tree: dict[tuple[int, ...], set[int]] = {}
    item_of = {}
    for item, row in enumerate(table.codes.tolist()):
        tokens = [code + offset for code in row if code >= 0]
        item_of[tuple(tokens)] = item
        for place, token in enumerate(tokens):
            tree.setdefault(tuple(tokens[:place]), set()).add(token)
    settings = GenerationConfig(
        num_beams=64,
        num_return_sequences=10,
        max_new_tokens=table.levels,
        length_penalty=0.0,
        early_stopping=False,
        do_sample=False,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=table.tree.end + offset,
        return_dict_in_generate=True,
        output_scores=True,
    )
    ours = model.recommend(HISTORIES, 10, beam=64)
    for row in range(len(LISTS)):
        found = model.model.generate(
            inputs_embeds=by_hand(model, 0, row),
            generation_config=settings,
            prefix_allowed_tokens_fn=lambda _, seen: sorted(tree.get(tuple(seen[1:].tolist()), {0})),
        )
        # Hugging Face fills up behind the end with ends, as our padding token is 0.
        end = table.tree.end + offset
        theirs = [item_of[(*one[1 : one[1:].index(end) + 1], end)] for one in found.sequences.tolist()]
        np.testing.assert_allclose(ours.log_probs[row], found.sequences_scores.numpy(), atol=1e-4)
        assert ours.items[row].tolist() == theirs


@pytest.mark.parametrize("kind", TABLES)
def test_one_hot_soft_tokens_equal_hard_ones_and_reach_content_codes_alone(kind: str) -> None:
    model = recommender(kind)
    table = model.sids
    items = np.array([2, 6, 41])
    content = table.quantised_codes[items]
    rows = torch.full((len(table),), -1)
    rows[torch.from_numpy(items)] = torch.arange(3)
    weights = tuple(
        torch.nn.functional.one_hot(torch.from_numpy(column).clamp_min(0), size).float().requires_grad_()
        for column, size in zip(content.T, table.quantised_sizes, strict=True)
    )
    targets = np.arange(5)
    hard = model.forward(HISTORIES, targets)
    soft = model.forward(HISTORIES, targets, soft=SoftSids(rows, weights))
    torch.testing.assert_close(hard.logits, soft.logits, rtol=1e-5, atol=1e-5)
    soft.token_log_probs().sum().backward()
    for level, column in zip(weights, content.T, strict=True):
        assert level.grad is not None
        assert ((level.grad.abs().sum(1) > 0).numpy() == (column >= 0)).all()


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_saved_is_what_is_loaded(kind: str, tmp_path: Path) -> None:
    blocked = np.zeros(64, dtype=np.bool_)
    blocked[:8] = True
    model = recommender(kind).with_serving(ServingRules(blocked=blocked, ignored=blocked))
    model.save(tmp_path / "m")
    again = P5Recommender.load(tmp_path / "m")
    for a, b in ((model, again), (model, model.clone())):
        one, two = a.recommend(HISTORIES, 5, beam=10), b.recommend(HISTORIES, 5, beam=10)
        np.testing.assert_array_equal(one.items, two.items)
        np.testing.assert_array_equal(one.log_probs, two.log_probs)
        assert a.sids.digest == b.sids.digest
        assert a.sids.tree == b.sids.tree
    assert again.capabilities == model.capabilities
    expected = Capability.HAS_CODEBOOKS if kind == "rqvae" else Capability.RAGGED_SIDS
    assert model.capabilities == {expected}


def test_a_clone_is_independent() -> None:
    model = recommender("rqvae")
    copy = model.clone()
    with torch.no_grad():
        copy.model.whole_words.weight.zero_()
    assert bool(model.model.whole_words.weight.any())
