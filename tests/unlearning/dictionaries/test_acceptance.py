"""Ranking through the modules: the numbers of the fast path, and hooks that have effect."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.decoding.beam import beam_search, rank_items
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.dictionaries.sae import ReplaySession, replayed_ndcg, spliced
from tests.backbones.minionerec import models as causal
from tests.backbones.p5sid import models as p5
from tests.planted import examples, sequences
from tests.unlearning.test_anatomy import t5


def part() -> Examples:
    """Every target of 20 short walks over the first 40 items."""
    walks = [[item % 40 for item in walk] for walk in sequences(12, 5, 1)]
    return examples(walks)


def models() -> dict[str, Recommender]:
    torch.set_num_threads(1)
    return {
        "t5": t5(),
        "causal": causal.scratch(),
        "causal ragged": causal.scratch(ragged=True),
        "p5 sequential": p5.recommender("sequential"),
        "p5 collaborative": p5.recommender("collaborative"),
    }


@pytest.mark.parametrize("name", list(models()))
def test_replaying_gives_the_lists_of_the_fast_path(name: str) -> None:
    model = models()[name]
    model.module.eval()
    histories = part().histories(model.history_limit)
    trie = Trie.build(model.sids.codes, model.sids.level_sizes, blocked=None)
    session = ReplaySession(model, model.encode(histories))
    found = rank_items(beam_search(session, trie, model.vocabulary.offsets, beam=8), trie, 8)
    expected = model.recommend(histories, 8, beam=8)
    np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1e-4)
    assert (found.items == expected.items).mean() > 0.98, "other than near ties differ"


def test_a_spliced_module_changes_the_ranking_and_the_hook_is_gone_afterwards() -> None:
    model = causal.scratch()
    block = anatomy(model).decoder[1]
    before = replayed_ndcg(model, part())
    with spliced(block.mlp, lambda values: values):
        assert replayed_ndcg(model, part()) == before
    with spliced(block.mlp, torch.zeros_like):
        assert replayed_ndcg(model, part()) != before
    assert not block.mlp._forward_hooks
    assert replayed_ndcg(model, part()) == before
    hits = model.recommend(part().histories(5), 10, beam=10).ranks(part().targets)
    assert before == pytest.approx(float(np.where(hits > 0, 1 / np.log2(np.maximum(hits, 1) + 1), 0).mean()), abs=1e-6)
