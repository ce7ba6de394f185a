from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.decoding.beam import beam_search
from genrec_unlearn_bench.decoding.causal import CausalSession, CausalWeights
from genrec_unlearn_bench.decoding.trie import Trie
from tests.decoding.hugging_face import assert_same_lists, generate, tiny_qwen
from tests.decoding.sessions import sids_of

SIZES = (7, 9, 6, 3)
OFFSETS = (3, 10, 19, 25)
VOCABULARY = 28
EVERY = slice(0, VOCABULARY)


@pytest.fixture
def codes() -> np.ndarray:
    return np.random.default_rng(4).integers(0, SIZES, size=(90, 4))


def batch(*, left: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Five padded prompts of different length."""
    lengths = torch.tensor([9, 4, 1, 13, 7])
    mask = torch.arange(13)[None, :] < lengths[:, None]
    ids = torch.randint(1, VOCABULARY, (5, 13), generator=torch.Generator().manual_seed(8)) * mask
    if not left:
        return ids, mask
    order = mask.int().argsort(dim=1, stable=True)
    return ids.gather(1, order), mask.gather(1, order)


def opened(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> CausalSession:
    return CausalSession(CausalWeights(model), model.model.embed_tokens(ids), mask)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("beam", [2, 5, 12])
def test_lists_and_scores_are_those_of_generate(tied: bool, groups: int, beam: int, codes: np.ndarray) -> None:
    model = tiny_qwen(VOCABULARY, tied=tied, seed=beam, num_key_value_heads=groups)
    trie = Trie.build(codes, SIZES)
    ids, mask = batch()
    result = beam_search(opened(model, ids, mask), trie, OFFSETS, beam=beam)
    assert_same_lists(result, trie, OFFSETS, *generate(model, ids, mask, codes, OFFSETS, beam))


def test_padding_may_stand_on_either_side(codes: np.ndarray) -> None:
    model = tiny_qwen(VOCABULARY, seed=3)
    trie = Trie.build(codes, SIZES)
    left, right = (beam_search(opened(model, *batch(left=side)), trie, OFFSETS, beam=6) for side in (True, False))
    assert left.leaves.equal(right.leaves)
    torch.testing.assert_close(left.log_probs, right.log_probs, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_log_probabilities_are_those_of_the_model_teacher_forced(tied: bool) -> None:
    model = tiny_qwen(VOCABULARY, tied=tied)
    ids, mask = batch()
    draw = torch.Generator().manual_seed(3)
    session = opened(model, ids, mask)
    got = [session.start_window(EVERY)[:, None].expand(-1, 6, -1)]
    chosen = torch.zeros(5, 6, 0, dtype=torch.long)
    parents = torch.zeros(5, 6, dtype=torch.long)
    for level in range(3):
        tokens = OFFSETS[level] + torch.randint(0, SIZES[level], (5, 6), generator=draw)
        got.append(session.step_window(parents, tokens, EVERY))
        chosen = torch.cat([chosen.gather(1, parents[..., None].expand(-1, -1, level)), tokens[..., None]], 2)
        got = [kept.gather(1, parents[..., None].expand_as(kept)) for kept in got[:-1]] + got[-1:]
        parents = torch.randint(0, 6, (5, 6), generator=draw)
    whole = torch.cat([ids.repeat_interleave(6, 0), chosen.flatten(0, 1)], dim=1)
    seen = torch.cat([mask.repeat_interleave(6, 0), torch.ones(30, 3, dtype=torch.bool)], dim=1).long()
    positions = (seen.cumsum(1) - 1).clamp(min=0)
    plain = model(input_ids=whole, attention_mask=seen, position_ids=positions).logits[:, -4:].view(5, 6, 4, -1)
    torch.testing.assert_close(torch.stack(got, dim=2), plain.log_softmax(-1), atol=1e-5, rtol=1e-5)


def test_a_beam_that_covers_the_catalogue_is_exact(codes: np.ndarray) -> None:
    model = tiny_qwen(VOCABULARY, seed=6)
    trie = Trie.build(codes, SIZES)
    ids, mask = batch()
    session = opened(model, ids, mask)
    exact = beam_search(session, trie, OFFSETS, beam=trie.leaves)
    assert exact.leaves.shape == (5, trie.leaves)
    labels = torch.from_numpy(sids_of(trie, exact.leaves[3].numpy()) + np.asarray(OFFSETS))
    logits = model(input_ids=torch.cat([ids[3:4].expand(len(labels), -1), labels], dim=1)).logits[:, -5:-1]
    forced = logits.log_softmax(-1).gather(2, labels[..., None]).sum((1, 2))
    torch.testing.assert_close(exact.log_probs[3], forced, atol=1e-5, rtol=1e-6)


def test_windows_are_slices_of_the_log_softmax_and_prepared_weights_serve_many_batches() -> None:
    model = tiny_qwen(VOCABULARY)
    ids, mask = batch()
    weights = CausalWeights(model)
    session, other = (CausalSession(weights, model.model.embed_tokens(ids), mask) for _ in range(2))
    window = slice(10, 19)
    torch.testing.assert_close(session.start_window(window), other.start_window(EVERY)[:, window])
    parents, tokens = torch.zeros(5, 4, dtype=torch.long), torch.tensor([[3, 5, 9, 4]]).expand(5, -1)
    expected = other.step_window(parents, tokens, EVERY)[..., window]
    torch.testing.assert_close(session.step_window(parents, tokens, window), expected)
