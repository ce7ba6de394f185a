"""Constrained decoding against Hugging Face's ``generate`` with a Python trie: same lists, same run, same threads.

Run with ``-s`` to see the table. Both sides are timed end to end: encoder or prompt, preparation of weights, search.
Two threads, as far as the machine has two cores to spare (see ``timing.free_threads``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.decoding.beam import BeamResult, beam_search, rank_items
from genrec_unlearn_bench.decoding.causal import CausalSession, CausalWeights
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.decoding.t5 import T5DecoderWeights, T5EncoderWeights, T5Session, encode_t5
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.sids.table import SidTable
from tests.benchmarks.catalogue import OFFSETS, SEPARATOR, SIZES, VOCABULARY, Catalogue, industrial
from tests.benchmarks.timing import Duel, duel, free_threads, timed
from tests.decoding.hugging_face import as_result, assert_same_lists, generate, tiny_qwen, tiny_t5

pytestmark = pytest.mark.speed

USERS, HISTORY, BATCH = 64, 10, 64
ROUNDING = 2e-5
"""Items may swap places where their scores agree to float32 rounding."""


@pytest.fixture(autouse=True)
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    count = free_threads()
    torch.set_num_threads(count)
    yield count
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return industrial()


@pytest.fixture(scope="module")
def trie(catalogue: Catalogue) -> Trie:
    return Trie.build(catalogue.codes, SIZES)


@pytest.fixture(scope="module")
def t5() -> Any:
    """T5 of paper size: 4 + 4 layers, width 128, six heads of 64."""
    return tiny_t5(VOCABULARY, d_model=128, d_kv=64, d_ff=1024, num_layers=4, num_heads=6)


def full_histories(catalogue: Catalogue) -> Histories:
    """64 histories of ten items."""
    items = np.random.default_rng(1).integers(len(catalogue.codes), size=(USERS, HISTORY))
    return Histories(items, np.full(USERS, -1))


@pytest.mark.parametrize(("beam", "floor"), [(10, 3.0), (50, 6.0)])
def test_t5_of_paper_size(catalogue: Catalogue, trie: Trie, t5: Any, beam: int, floor: float) -> None:
    ids, mask = (torch.from_numpy(array) for array in catalogue.tokens(full_histories(catalogue)))

    def ours() -> BeamResult:
        with torch.inference_mode():
            return beam_search(
                T5Session(T5DecoderWeights(t5), encode_t5(T5EncoderWeights(t5), t5.shared(ids), mask), mask),
                trie,
                OFFSETS,
                beam=beam,
            )

    def theirs() -> tuple[torch.Tensor, torch.Tensor]:
        return generate(t5, ids, mask, catalogue.codes, OFFSETS, beam)

    result, found, expected = duel(ours, theirs, rounds=3 if beam == 10 else 2, ours_per_round=3)
    assert_same_lists(found, trie, OFFSETS, *expected, rounding=ROUNDING)
    result.report(f"decode t5 beam{beam} ({catalogue.source})")
    assert result.ratio >= floor


def test_causal_model(catalogue: Catalogue, trie: Trie) -> None:
    """6 M parameters; prompt BOS s1 SEP s2 ... SEP, ten items."""
    model = tiny_qwen(VOCABULARY, spread=0.05, hidden_size=256, intermediate_size=1024, num_hidden_layers=6)
    items, _ = catalogue.tokens(full_histories(catalogue))
    separated = np.concatenate(
        [items.reshape(USERS, HISTORY, 3), np.full((USERS, HISTORY, 1), SEPARATOR)], axis=2
    ).reshape(USERS, -1)
    ids = torch.from_numpy(np.concatenate([np.ones((USERS, 1), dtype=np.int64), separated], axis=1))
    mask = torch.ones_like(ids, dtype=torch.bool)

    def ours() -> BeamResult:
        with torch.inference_mode():
            return beam_search(
                CausalSession(CausalWeights(model), model.model.embed_tokens(ids), mask), trie, OFFSETS, beam=10
            )

    def theirs() -> tuple[torch.Tensor, torch.Tensor]:
        return generate(model, ids, mask, catalogue.codes, OFFSETS, 10)

    result, found, expected = duel(ours, theirs, rounds=2, ours_per_round=3)
    assert_same_lists(found, trie, OFFSETS, *expected, rounding=ROUNDING)
    result.report(f"decode causal beam10 ({catalogue.source})")
    assert result.ratio >= 8.0


@pytest.mark.parametrize(("beam", "floor", "samples"), [(10, 6.0, 6), (50, 12.0, 2)])
def test_all_of_industrial(catalogue: Catalogue, trie: Trie, beam: int, floor: float, samples: int) -> None:
    """All 4,533 test rows, from histories to lists of ten items, as the bench itself does it.

    Hugging Face takes the rows as they stand in the file, 64 at a time. It is timed on a few batches spread over the
    file, half of them before our turn and half after, and scaled to all rows; our time is for all rows.
    """
    rows = catalogue.histories
    recommender = T5Recommender.fresh(T5Shape(history_limit=10), SidTable(catalogue.codes, SIZES, 3), seed=0)
    recommender.model.shared.weight.data.mul_(3.0)
    recommender.model.eval()

    def ours() -> Ranking:
        return recommender.recommend(rows, 10, beam=beam)

    def theirs(place: int) -> tuple[torch.Tensor, torch.Tensor]:
        part = rows.rows(np.arange(place * BATCH, (place + 1) * BATCH))
        ids, mask = (torch.from_numpy(array) for array in catalogue.tokens(part))
        return generate(recommender.model, ids, mask, catalogue.codes, OFFSETS, beam)

    places = [int(place) for place in np.linspace(0, len(rows) // BATCH - 1, samples)]
    peers = [timed(partial(theirs, place)) for place in places[: samples // 2]]
    took, ranking = timed(ours)
    peers += [timed(partial(theirs, place)) for place in places[samples // 2 :]]
    for place, (_, found) in zip(places, peers, strict=True):
        part = slice(place * BATCH, (place + 1) * BATCH)
        expected = rank_items(as_result(trie, OFFSETS, *found), trie, 10)
        np.testing.assert_allclose(ranking.log_probs[part], expected.log_probs, atol=1e-4)
        # Places may only be swapped where scores agree to rounding, which happens once in thousands.
        assert (ranking.items[part] != expected.items).mean() < 0.005
    result = Duel(took, sum(seconds for seconds, _ in peers) / samples * len(rows) / BATCH)
    note = f" (HF scaled from {samples} batches of {BATCH})"
    result.report(f"evaluate {len(rows)} rows t5 beam{beam} ({catalogue.source})", note=note)
    assert result.ratio >= floor


@pytest.mark.parametrize("beam", [10, 50])
def test_throughput_hardly_falls_with_the_catalogue(beam: int) -> None:
    """Four levels of 256 codes, 10,000 against 1,000,000 items: the same model, the same histories."""
    sizes, offsets = (256,) * 4, (3, 259, 515, 771)
    model = tiny_t5(1027, d_model=128, d_kv=64, d_ff=1024, num_layers=4, num_heads=6)
    codes = np.random.default_rng(2).integers(256, size=(1_000_000, 4))
    small, large = Trie.build(codes[:10_000], sizes), Trie.build(codes, sizes)
    weights = T5DecoderWeights(model)
    states = torch.randn(USERS, 30, 128, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(USERS, 30, dtype=torch.bool)

    def run(trie: Trie) -> BeamResult:
        return beam_search(T5Session(weights, states, mask), trie, offsets, beam=beam)

    result, _, _ = duel(partial(run, large), partial(run, small), rounds=5)
    result.report(f"decode 1,000,000 items beam{beam}", peer="10,000 items")
    assert result.ratio >= 0.7
