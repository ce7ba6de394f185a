from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.recommender import PAD_TOKEN, SPECIALS, ServingRules, SidVocabulary, SoftSids
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.decoding.t5 import T5Session
from genrec_unlearn_bench.sids.table import SidTable
from tests.planted import sids

SHAPE = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=2, heads=4, history_limit=5)
LISTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [10, 11]]


@pytest.fixture
def model() -> T5Recommender:
    recommender = T5Recommender.fresh(SHAPE, sids(), seed=3)
    recommender.module.eval()
    return recommender


def tokens(model: T5Recommender, row: list[int]) -> torch.Tensor:
    return torch.from_numpy(model.vocabulary.tokens(model.sids)[row].reshape(1, -1))


def test_logits_and_hidden_states_equal_the_plain_transformers_model(model: T5Recommender) -> None:
    targets = np.array([20, 21, 22, 23])
    context = model.encode(Histories.of(LISTS), hidden=True)
    ours = model.decode(context, model.codes_of(targets), hidden=True)
    for row, history in enumerate(LISTS):
        plain = model.model(
            input_ids=tokens(model, history), labels=tokens(model, [int(targets[row])]), output_hidden_states=True
        )
        torch.testing.assert_close(ours.logits[row], plain.logits[0], rtol=1e-5, atol=1e-5)
        width = len(history) * model.sids.levels
        for layer, states in enumerate(plain.encoder_hidden_states):
            torch.testing.assert_close(context.hidden[layer][row, :width], states[0], rtol=1e-5, atol=1e-5)
        for layer, states in enumerate(plain.decoder_hidden_states):
            torch.testing.assert_close(ours.hidden[layer][row], states[0], rtol=1e-5, atol=1e-5)
        expected = torch.nn.functional.cross_entropy(plain.logits[0], ours.labels[row])
        torch.testing.assert_close(-ours.token_log_probs()[row].mean(), expected, rtol=1e-5, atol=1e-5)


def test_several_targets_on_one_history_equal_one_by_one(model: T5Recommender) -> None:
    context = model.encode(Histories.of(LISTS))
    rows = torch.tensor([2, 0, 2, 3, 2])
    targets = np.array([7, 8, 9, 10, 11])
    shared = model.decode(context, model.codes_of(targets), rows=rows, hidden=True)
    alone = model.forward(Histories.of([LISTS[row] for row in rows]), targets, hidden=True)
    torch.testing.assert_close(shared.logits, alone.logits, rtol=1e-5, atol=1e-5)
    for a, b in zip(shared.hidden, alone.hidden, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_only_the_most_recent_items_are_read(model: T5Recommender) -> None:
    long, short = Histories.of([[40, 41, 1, 2, 3, 4, 5], [7]]), Histories.of([[1, 2, 3, 4, 5], [7]])
    a, b = model.forward(long, np.array([9, 9])), model.forward(short, np.array([9, 9]))
    torch.testing.assert_close(a.logits, b.logits)


def test_an_empty_history_is_a_valid_input(model: T5Recommender) -> None:
    mixed = model.forward(Histories.of([[], [3, 4]]), np.array([1, 2])).logits
    assert torch.isfinite(mixed).all()
    alone = model.forward(Histories.of([[3, 4]]), np.array([2])).logits
    torch.testing.assert_close(mixed[1:], alone, rtol=1e-4, atol=1e-4)
    assert (model.recommend(Histories.of([[]]), 5, beam=5).items >= 0).all()


def test_one_hot_soft_tokens_equal_the_hard_ones_and_carry_gradient(model: T5Recommender) -> None:
    table = model.sids
    items = np.array([2, 6])
    rows = torch.full((len(table),), -1)
    rows[torch.from_numpy(items)] = torch.arange(2)
    weights = tuple(
        torch.nn.functional.one_hot(torch.from_numpy(table.codes[items, level]), size).float().requires_grad_()
        for level, size in enumerate(table.level_sizes[:3])
    )
    hard = model.forward(Histories.of(LISTS), np.arange(4))
    soft = model.forward(Histories.of(LISTS), np.arange(4), soft=SoftSids(rows, weights))
    torch.testing.assert_close(hard.logits, soft.logits, rtol=1e-5, atol=1e-5)
    soft.token_log_probs().sum().backward()
    for level in weights:
        assert level.grad is not None
        assert (level.grad.abs().sum(1) > 0).all()


def test_save_and_load_give_the_same_numbers(model: T5Recommender, tmp_path: Path) -> None:
    blocked = np.zeros(len(model.sids), dtype=bool)
    blocked[:10] = True
    served = model.with_serving(ServingRules(blocked=blocked, ignored=blocked))
    served.save(tmp_path / "model")
    again = T5Recommender.load(tmp_path / "model")
    histories = Histories.of(LISTS)
    a, b = served.recommend(histories, 5, beam=8), again.recommend(histories, 5, beam=8)
    np.testing.assert_array_equal(a.items, b.items)
    np.testing.assert_array_equal(a.log_probs, b.log_probs)
    assert again.sids.digest == model.sids.digest
    assert not np.isin(a.items, np.arange(10)).any()


def test_a_clone_is_independent_and_decoding_follows_a_new_table(model: T5Recommender) -> None:
    histories = Histories.of(LISTS)
    before = model.recommend(histories, 64, exact=True)
    copy = model.clone()
    with torch.no_grad():
        next(copy.module.parameters()).add_(1.0)
    np.testing.assert_array_equal(model.recommend(histories, 64, exact=True).log_probs, before.log_probs)
    swapped = model.sids.codes[[1, 0]]
    moved = model.with_sids(model.sids.reassigned(np.array([0, 1]), swapped))
    quiet = Histories.of([[30, 31]])
    a, b = model.recommend(quiet, 64, exact=True), moved.recommend(quiet, 64, exact=True)
    relabel = np.arange(len(model.sids))
    relabel[[0, 1]] = [1, 0]
    np.testing.assert_array_equal(relabel[a.items], b.items)
    original_space = moved.recommend(quiet, 64, exact=True, sids=model.sids)
    np.testing.assert_array_equal(original_space.items, a.items)


def test_ignored_items_do_not_influence_anything(model: T5Recommender) -> None:
    ignored = np.zeros(len(model.sids), dtype=bool)
    ignored[2] = True
    served = model.with_serving(ServingRules(ignored=ignored))
    a = served.target_log_probs(Histories.of([[1, 2, 3]]), np.array([5]))
    b = model.target_log_probs(Histories.of([[1, 3]]), np.array([5]))
    torch.testing.assert_close(a, b)


def test_user_tokens_are_read() -> None:
    shape = SHAPE.model_copy(update={"user_tokens": 7})
    model = T5Recommender.fresh(shape, sids(), seed=0)
    model.module.eval()
    one = model.forward(Histories.of([[1, 2]], users=[1]), np.array([3])).logits
    two = model.forward(Histories.of([[1, 2]], users=[2]), np.array([3])).logits
    same = model.forward(Histories.of([[1, 2]], users=[8]), np.array([3])).logits
    assert not torch.allclose(one, two)
    torch.testing.assert_close(one, same)


def test_exact_scores_are_teacher_forced_sums(model: T5Recommender) -> None:
    ranking = model.recommend(Histories.of(LISTS[:2]), 64, exact=True)
    for row in range(2):
        items = ranking.items[row]
        given = model.target_log_probs(Histories.of([LISTS[row]] * 64), items).sum(1)
        np.testing.assert_allclose(ranking.log_probs[row], given.numpy(), atol=1e-4)
        assert sorted(items.tolist()) == list(range(64))


def test_the_served_path_gives_the_numbers_of_the_differentiable_one(model: T5Recommender) -> None:
    histories = Histories.of([*LISTS, []])
    with torch.inference_mode():
        every = slice(0, model.vocabulary.size)
        fast = model.server()(histories).start_window(every)
        context = model.encode(histories)
        plain = T5Session(model._decoder(), context.state, context.mask).start_window(every)
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


def test_levels_have_tokens_of_their_own_unless_they_share_them() -> None:
    own, shared = SidVocabulary((4, 4, 4), user_tokens=2), SidVocabulary((4, 4, 4), base=100, shared=True)
    assert own.offsets == (SPECIALS, SPECIALS + 4, SPECIALS + 8)
    assert (own.user_offset, own.size) == (SPECIALS + 12, SPECIALS + 14)
    assert shared.offsets == (100, 100, 100)
    assert (shared.user_offset, shared.size) == (104, 104)
    table = SidTable(np.array([[1, 1, 3], [2, 3, -1]]), (4, 4, 4), 3)
    assert own.tokens(table).tolist() == [[4, 8, 14], [5, 10, PAD_TOKEN]]
    assert shared.tokens(table).tolist() == [[101, 101, 103], [102, 103, PAD_TOKEN]]
