from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genrec_unlearn_bench.decoding.beam import BeamResult, beam_search, rank_items
from genrec_unlearn_bench.decoding.trie import Trie
from tests.decoding.sessions import LatticeSession, RecurrentSession, beams_by_hand, sids_of

SIZES, OFFSETS = (4, 5, 3), (3, 7, 12)
VOCABULARY = 18
BATCH = 3


@st.composite
def codes(draw: st.DrawFn, *, ragged: bool = True) -> np.ndarray:
    count = draw(st.integers(1, 40))
    rows = np.stack([draw(arrays(np.int64, count, elements=st.integers(0, size - 1))) for size in SIZES], axis=1)
    if ragged and draw(st.booleans()):
        depth = draw(arrays(np.int64, count, elements=st.integers(1, 3)))
        rows[np.arange(3)[None, :] >= depth[:, None]] = -1
    return rows


def pairs(result: BeamResult, trie: Trie, row: int) -> list[tuple[tuple[int, ...], float]]:
    live = result.leaves[row] >= 0
    assert (result.log_probs[row] > -np.inf).tolist() == live.tolist()
    assert live.tolist() == sorted(live.tolist(), reverse=True), "dead beams stand last"
    sids = sids_of(trie, result.leaves[row][live].numpy()).tolist()
    return [(tuple(sid), float(score)) for sid, score in zip(sids, result.log_probs[row][live], strict=True)]


@given(codes(), st.integers(1, 14))
@settings(max_examples=150, deadline=None)
def test_the_search_is_the_one_spelled_out_ties_included(table: np.ndarray, beam: int) -> None:
    trie = Trie.build(table, SIZES)
    result = beam_search(LatticeSession(BATCH), trie, OFFSETS, beam=beam)
    for row in range(BATCH):
        assert pairs(result, trie, row) == beams_by_hand(LatticeSession(BATCH), row, table, OFFSETS, beam)


@given(codes(ragged=False), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_scores_are_sums_of_full_vocabulary_log_probabilities(table: np.ndarray, seed: int) -> None:
    """Renormalising over the children would give each history's scores a log-sum-exp of 0."""
    trie = Trie.build(table, SIZES)
    session = RecurrentSession(BATCH, VOCABULARY, seed=seed)
    result = beam_search(session, trie, OFFSETS, beam=trie.leaves)
    assert result.leaves.shape == (BATCH, trie.leaves)
    for row in range(BATCH):
        for sid, score in pairs(result, trie, row):
            tokens = [code + offset for code, offset in zip(sid, OFFSETS, strict=True)]
            assert score == pytest.approx(session.score(row, tokens), abs=1e-4)
        assert result.log_probs[row].logsumexp(0) < -1e-3


def test_a_narrow_beam_prunes_what_a_wide_one_finds() -> None:
    """Beam search must be beam search: the best leaf may lie under a prefix that a narrow beam has dropped."""
    table = np.array([[a, b, c] for a in range(4) for b in range(5) for c in range(3)])
    trie = Trie.build(table, SIZES)
    session = RecurrentSession(40, VOCABULARY, seed=5)
    narrow = beam_search(session, trie, OFFSETS, beam=2)
    wide = beam_search(session, trie, OFFSETS, beam=60)
    assert narrow.leaves.shape == (40, 2)
    assert (narrow.log_probs <= wide.log_probs[:, :2] + 1e-6).all()
    assert (narrow.leaves != wide.leaves[:, :2]).any()


def test_a_diverged_model_gives_a_list_that_says_so() -> None:
    """NaN logits neither crash the search nor hide in it, and a ranking holds items of the catalogue all the same."""
    trie = Trie.build(np.array([[0, 1, 1], [0, 2, 1], [3, 0, 0], [3, 0, 2]]), SIZES)
    session = RecurrentSession(2, VOCABULARY)
    session.head[:] = float("nan")
    ranking = rank_items(beam_search(session, trie, OFFSETS, beam=3), trie, 3)
    assert np.isnan(ranking.log_probs).all()
    assert set(ranking.items.ravel().tolist()) <= {0, 1, 2, 3}


def test_one_level_and_one_item() -> None:
    trie = Trie.build(np.array([[2], [0]]), (4,))
    result = beam_search(RecurrentSession(2, 9), trie, (3,), beam=5)
    assert sorted(result.leaves[0].tolist()) == [0, 1]
    lone = Trie.build(np.array([[1, 1, 1]]), SIZES)
    assert beam_search(RecurrentSession(2, VOCABULARY), lone, OFFSETS, beam=5).leaves.tolist() == [[0], [0]]


def test_items_that_share_a_sid_follow_each_other_with_its_score() -> None:
    trie = Trie.build(np.array([[1], [0], [1], [2], [1]]), (4,))  # leaf 0: 1; leaf 1: 0, 2, 4; leaf 2: 3
    dead = float("-inf")
    result = BeamResult(torch.tensor([[1, 2, 0], [2, 0, -1]]), torch.tensor([[-0.5, -1.0, -2.0], [-0.1, -0.2, dead]]))
    ranking = rank_items(result, trie, 4)
    assert ranking.items.tolist() == [[0, 2, 4, 3], [3, 1, -1, -1]]
    np.testing.assert_allclose(ranking.log_probs, [[-0.5, -0.5, -0.5, -1.0], [-0.1, -0.2, -np.inf, -np.inf]])
    assert ranking.items.dtype == np.int64
    assert ranking.log_probs.dtype == np.float32
    assert rank_items(result, trie, 2).items.tolist() == [[0, 2], [3, 1]]
    assert rank_items(result, trie, 7).items.tolist() == [[0, 2, 4, 3, 1, -1, -1], [3, 1, -1, -1, -1, -1, -1]]


@given(codes(), st.data())
@settings(max_examples=80, deadline=None)
def test_every_item_is_ranked_once_when_the_list_is_long_enough(table: np.ndarray, data: st.DataObject) -> None:
    blocked = data.draw(arrays(np.bool_, len(table)))
    blocked[0] = False
    trie = Trie.build(table, SIZES, blocked=blocked)
    result = beam_search(LatticeSession(BATCH), trie, OFFSETS, beam=trie.leaves)
    ranking = rank_items(result, trie, len(table))
    for row in ranking.items:
        assert sorted(row[row >= 0].tolist()) == np.flatnonzero(~blocked).tolist()
