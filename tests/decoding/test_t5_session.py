from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.decoding.beam import beam_search, rank_items
from genrec_unlearn_bench.decoding.t5 import T5DecoderWeights, T5EncoderWeights, T5Session, encode_t5
from genrec_unlearn_bench.decoding.trie import Trie
from tests.decoding.hugging_face import assert_same_lists, generate, tiny_t5
from tests.decoding.sessions import sids_of

SIZES = (7, 9, 6, 3)
OFFSETS = (3, 10, 19, 25)
VOCABULARY = 28
EVERY = slice(0, VOCABULARY)
KINDS = [(True, False), (True, True), (False, False), (False, True)]


@pytest.fixture
def codes() -> np.ndarray:
    return np.random.default_rng(4).integers(0, SIZES, size=(90, 4))


def batch(*, left: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Five padded histories of different length."""
    lengths = torch.tensor([9, 4, 1, 13, 7])
    mask = torch.arange(13)[None, :] < lengths[:, None]
    ids = torch.randint(1, VOCABULARY, (5, 13), generator=torch.Generator().manual_seed(8)) * mask
    return (ids.flip(1), mask.flip(1)) if left else (ids, mask)


def opened(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> T5Session:
    with torch.no_grad():
        states = model.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return T5Session(T5DecoderWeights(model), states, mask)


@pytest.mark.parametrize(("tied", "gated"), KINDS)
@pytest.mark.parametrize("beam", [2, 5, 12])
def test_lists_and_scores_are_those_of_generate(tied: bool, gated: bool, beam: int, codes: np.ndarray) -> None:
    """Beam 12 is wider than the root's seven children."""
    model = tiny_t5(VOCABULARY, tied=tied, gated=gated, seed=beam)
    trie = Trie.build(codes, SIZES)
    for left in (False, True):
        ids, mask = batch(left=left)
        result = beam_search(opened(model, ids, mask), trie, OFFSETS, beam=beam)
        assert_same_lists(result, trie, OFFSETS, *generate(model, ids, mask, codes, OFFSETS, beam))


@pytest.mark.parametrize(("tied", "gated"), KINDS)
def test_log_probabilities_are_those_of_the_model_teacher_forced(tied: bool, gated: bool) -> None:
    model = tiny_t5(VOCABULARY, tied=tied, gated=gated)
    ids, mask = batch()
    draw = torch.Generator().manual_seed(3)
    session = opened(model, ids, mask)
    got = [session.start_window(EVERY)[:, None].expand(-1, 6, -1)]
    chosen = torch.zeros(5, 6, 1, dtype=torch.long)
    parents = torch.zeros(5, 6, dtype=torch.long)
    for level in range(3):
        tokens = OFFSETS[level] + torch.randint(0, SIZES[level], (5, 6), generator=draw)
        got.append(session.step_window(parents, tokens, EVERY))
        chosen = torch.cat([chosen.gather(1, parents[..., None].expand(-1, -1, chosen.shape[2])), tokens[..., None]], 2)
        got = [kept.gather(1, parents[..., None].expand_as(kept)) for kept in got[:-1]] + got[-1:]
        parents = torch.randint(0, 6, (5, 6), generator=draw)
    plain = model(
        input_ids=ids.repeat_interleave(6, 0),
        attention_mask=mask.long().repeat_interleave(6, 0),
        decoder_input_ids=chosen.flatten(0, 1),
    ).logits.view(5, 6, 4, -1)
    torch.testing.assert_close(torch.stack(got, dim=2), plain.log_softmax(-1), atol=1e-5, rtol=1e-5)


def test_windows_are_slices_of_the_log_softmax() -> None:
    model = tiny_t5(VOCABULARY)
    session, other = opened(model, *batch()), opened(model, *batch())
    window = slice(10, 19)
    torch.testing.assert_close(session.start_window(window), other.start_window(EVERY)[:, window])
    parents, tokens = torch.zeros(5, 4, dtype=torch.long), torch.tensor([[3, 5, 9, 4]]).expand(5, -1)
    expected = other.step_window(parents, tokens, EVERY)[..., window]
    torch.testing.assert_close(session.step_window(parents, tokens, window), expected)


def test_a_beam_that_covers_the_catalogue_is_exact(codes: np.ndarray) -> None:
    model = tiny_t5(VOCABULARY, seed=6)
    trie = Trie.build(codes, SIZES)
    ids, mask = batch()
    session = opened(model, ids, mask)
    exact = beam_search(session, trie, OFFSETS, beam=trie.leaves)
    assert exact.leaves.shape == (5, trie.leaves)
    labels = torch.from_numpy(sids_of(trie, exact.leaves[1].numpy()) + np.asarray(OFFSETS))
    logits = model(
        input_ids=ids[1:2].expand(len(labels), -1),
        attention_mask=mask[1:2].long().expand(len(labels), -1),
        labels=labels,
    ).logits
    forced = logits.log_softmax(-1).gather(2, labels[..., None]).sum((1, 2))
    torch.testing.assert_close(exact.log_probs[1], forced, atol=1e-5, rtol=1e-6)


def test_decoding_follows_a_new_table_new_weights_and_blocked_items(codes: np.ndarray) -> None:
    model = tiny_t5(VOCABULARY, seed=2)
    ids, mask = batch()
    moved = codes.copy()
    moved[::2] = np.random.default_rng(9).integers(0, SIZES, size=moved[::2].shape)
    before = beam_search(opened(model, ids, mask), Trie.build(codes, SIZES), OFFSETS, beam=8)
    for table in (codes, moved):
        trie = Trie.build(table, SIZES)
        result = beam_search(opened(model, ids, mask), trie, OFFSETS, beam=8)
        assert_same_lists(result, trie, OFFSETS, *generate(model, ids, mask, table, OFFSETS, 8))
    blocked = np.zeros(len(codes), dtype=np.bool_)
    blocked[rank_items(before, Trie.build(codes, SIZES), 3).items.ravel()] = True
    trie = Trie.build(codes, SIZES, blocked=blocked)
    result = beam_search(opened(model, ids, mask), trie, OFFSETS, beam=8)
    assert_same_lists(result, trie, OFFSETS, *generate(model, ids, mask, codes[~blocked], OFFSETS, 8))
    ranking = rank_items(result, trie, 8)
    assert not blocked[ranking.items[ranking.items >= 0]].any()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    assert_same_lists(
        beam_search(opened(model, ids, mask), trie, OFFSETS, beam=8),
        trie,
        OFFSETS,
        *generate(model, ids, mask, codes[~blocked], OFFSETS, 8),
    )


@pytest.mark.parametrize(("tied", "gated"), KINDS)
@pytest.mark.parametrize("left", [False, True])
def test_the_encoder_gives_the_states_of_the_model(tied: bool, gated: bool, left: bool) -> None:
    model = tiny_t5(VOCABULARY, tied=tied, gated=gated)
    ids, mask = batch(left=left)
    with torch.no_grad():
        plain = model.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        ours = encode_t5(T5EncoderWeights(model), model.shared(ids), mask)
    torch.testing.assert_close(ours[mask], plain[mask], atol=1e-5, rtol=1e-5)


def test_prepared_weights_serve_many_batches() -> None:
    model = tiny_t5(VOCABULARY)
    weights = T5DecoderWeights(model)
    ids, mask = batch()
    states = encode_t5(T5EncoderWeights(model), model.shared(ids), mask)
    every = opened(model, ids, mask).start_window(EVERY)
    torch.testing.assert_close(T5Session(weights, states, mask).start_window(EVERY), every)
    alone = T5Session(weights, states[1:2, :4], mask[1:2, :4]).start_window(EVERY)
    torch.testing.assert_close(alone, every[1:2], atol=1e-5, rtol=1e-5)


def test_level_heads_normalise_within_their_level() -> None:
    model = tiny_t5(VOCABULARY)
    ids, mask = batch()
    windows = [slice(first, first + size) for first, size in zip(OFFSETS, SIZES, strict=True)]
    with torch.no_grad():
        states = model.encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    sessions = [T5Session(T5DecoderWeights(model, windows), states, mask) for _ in range(2)]
    plain, parents = opened(model, ids, mask), torch.zeros(5, 1, dtype=torch.long)
    free, part = plain.start_window(EVERY), sessions[1].start_window(slice(4, 9))
    whole = sessions[0].start_window(windows[0])
    for level, window in enumerate(windows):
        expected = free[..., window].log_softmax(-1)
        torch.testing.assert_close(whole, expected, atol=1e-5, rtol=1e-5)
        inner = slice(1, 6) if level == 0 else slice(1, expected.shape[-1] - 1)
        torch.testing.assert_close(part, expected[..., inner], atol=1e-5, rtol=1e-5)
        if level + 1 < len(windows):
            following = windows[level + 1]
            tokens = torch.full((5, 1), window.start + 2)
            free = plain.step_window(parents, tokens, EVERY)
            whole = sessions[0].step_window(parents, tokens, following)
            part = sessions[1].step_window(parents, tokens, slice(following.start + 1, following.stop - 1))
