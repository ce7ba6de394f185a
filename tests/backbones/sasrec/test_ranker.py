from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import SasRecConfig
from genrec_unlearn_bench.backbones.sasrec import Popularity, SasRec
from genrec_unlearn_bench.data.examples import Examples, Histories
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from tests.planted import examples, sequences

ITEMS = 68
"""Those of the walks, and four that no walk has: 64 to 67."""
CONFIG = SasRecConfig(dim=32, layers=1, heads=2, dropout=0.1, history_limit=6, lr=1e-2, batch_size=64, epochs=25)


def fit(config: SasRecConfig = CONFIG, seed: int = 0, users: int = 200, progress: Progress | None = None) -> SasRec:
    torch.set_num_threads(1)
    return SasRec.fit(
        config,
        train=examples(sequences(users, 9, 1)),
        valid=examples(sequences(20, 9, 2)),
        items=ITEMS,
        seed=seed,
        device="cpu",
        progress=progress or Progress(),
    )


@pytest.fixture(scope="module")
def trained() -> SasRec:
    return fit()


@pytest.fixture(scope="module")
def held_out() -> Examples:
    return examples(sequences(60, 9, 3))


def hits(ranker: SasRec | Popularity, held_out: Examples, k: int) -> float:
    return float((ranker.recommend(held_out.histories(), k).ranks(held_out.targets) > 0).mean())


def test_planted_walks_are_learned(trained: SasRec, held_out: Examples) -> None:
    # The next member follows in 95 of 100 steps, where nobody could do better than to say so.
    assert hits(trained, held_out, 1) > 0.85
    assert hits(Popularity.fit(held_out, ITEMS), held_out, 1) < 0.1


def test_items_never_seen_keep_their_vectors_and_stand_behind() -> None:
    one, more = (fit(CONFIG.model_copy(update={"epochs": n}), users=20) for n in (1, 3))
    np.testing.assert_array_equal(one.item_vectors()[64:], more.item_vectors()[64:])
    assert len(np.unique(one.item_vectors()[64:], axis=0)) == 4
    assert np.abs(one.item_vectors()[:64] - more.item_vectors()[:64]).max() > 1e-3
    np.testing.assert_array_equal(np.flatnonzero(~one.seen)[-4:], [64, 65, 66, 67])
    ranking = one.recommend(Histories.of([[1, 2, 3]]), ITEMS)
    unseen = np.flatnonzero(~one.seen)
    np.testing.assert_array_equal(ranking.items[0, -len(unseen) :], unseen)
    assert len(np.unique(ranking.log_probs[0, -len(unseen) :])) == 1


def test_rankings_are_complete_sorted_and_normalised(trained: SasRec, held_out: Examples) -> None:
    ranking = trained.recommend(held_out.histories(), ITEMS)
    np.testing.assert_array_equal(np.sort(ranking.items, axis=1), np.tile(np.arange(ITEMS), (len(held_out), 1)))
    assert (np.diff(ranking.log_probs, axis=1) <= 0).all()
    np.testing.assert_allclose(np.exp(ranking.log_probs).sum(1), 1, atol=1e-5)
    ten = trained.recommend(held_out.histories(), 10)
    np.testing.assert_array_equal(ten.items, ranking.items[:, :10])


def test_more_places_than_items_stay_empty(trained: SasRec) -> None:
    ranking = trained.recommend(Histories.of([[1], []]), ITEMS + 2)
    assert (ranking.items[:, -2:] == -1).all()
    assert np.isneginf(ranking.log_probs[:, -2:]).all()
    assert (ranking.items[:, :-2] >= 0).all()


def test_only_the_last_items_are_read_and_rows_do_not_touch_each_other(trained: SasRec) -> None:
    long = [9, 8, 7, 1, 2, 3, 4, 5, 6]
    together = trained.recommend(Histories.of([long, [40], long[-6:]]), 5)
    np.testing.assert_array_equal(together.items[0], together.items[2])
    np.testing.assert_array_equal(together.items[1], trained.recommend(Histories.of([[40]]), 5).items[0])


def test_empty_histories_get_the_most_popular_items(trained: SasRec) -> None:
    expected = Popularity(trained.counts).recommend(Histories.of([[]]), 10)
    for ranking in (trained.recommend(Histories.of([[], []]), 10), trained.recommend(Histories.of([[], [1, 2]]), 10)):
        np.testing.assert_array_equal(ranking.items[0], expected.items[0])
        np.testing.assert_allclose(ranking.log_probs[0], expected.log_probs[0], rtol=1e-5)
    assert trained.recommend(Histories.of([]), 3).items.shape == (0, 3)


def test_equal_scores_stand_in_item_order() -> None:
    ranker = fit(CONFIG.model_copy(update={"epochs": 1}), users=20)
    with torch.no_grad():
        ranker.network.items.weight[:] = torch.zeros(1)
        ranker.network.items.weight[5] = 10 * torch.sign(ranker.network(torch.tensor([[1]]))[0, 0])
    ranker.seen[:] = True
    ranking = ranker.recommend(Histories.of([[1]]), 6)
    np.testing.assert_array_equal(ranking.items[0], [5, 0, 1, 2, 3, 4])


def test_saved_and_loaded_it_is_the_same(trained: SasRec, held_out: Examples, tmp_path: Path) -> None:
    trained.save(tmp_path / "sasrec")
    again = SasRec.load(tmp_path / "sasrec")
    np.testing.assert_array_equal(again.item_vectors(), trained.item_vectors())
    ours, theirs = (ranker.recommend(held_out.histories(), 10) for ranker in (trained, again))
    np.testing.assert_array_equal(ours.items, theirs.items)
    np.testing.assert_array_equal(ours.log_probs, theirs.log_probs)
    assert again.config == trained.config


def test_the_same_seed_gives_the_same_bits() -> None:
    config = CONFIG.model_copy(update={"epochs": 2})
    torch.manual_seed(1)
    one = fit(config, users=20)
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    two, other = fit(config, users=20), fit(config, seed=1, users=20)
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(one.item_vectors(), two.item_vectors())
    assert np.abs(one.item_vectors() - other.item_vectors()).max() > 1e-3


def test_training_stops_early_and_keeps_the_best_epoch() -> None:
    progress = Progress()
    ranker = fit(CONFIG.model_copy(update={"epochs": 60, "patience": 2, "lr": 0.05}), progress=progress)
    scores = [step.losses["ndcg@10"] for step in progress.steps]
    assert len(scores) < 60
    assert progress.notes["sasrec.best_valid_ndcg@10"] == max(scores)
    assert progress.notes["sasrec.best_epoch"] == int(np.argmax(scores)) + 1 == len(scores) - 2
    valid = examples(sequences(20, 9, 2))
    ranks = ranker.recommend(valid.histories(), 10).ranks(valid.targets)
    now = np.where(ranks > 0, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0).mean()
    assert np.isclose(now, max(scores))


def test_nothing_to_train_on_and_nothing_to_rank(trained: SasRec) -> None:
    train, valid = examples(sequences(5, 4, 1)), examples(sequences(5, 4, 2))
    nothing = np.zeros(0, dtype=np.int64)
    for first, second in (
        (train.subset(nothing), valid),
        (train, valid.subset(nothing)),
        (train.without_items(np.ones(ITEMS, dtype=bool)), valid),
    ):
        with pytest.raises(DataFault, match="nothing to train on"):
            SasRec.fit(CONFIG, train=first, valid=second, items=ITEMS, seed=0, device="cpu", progress=Progress())
    with pytest.raises(ValueError, match="positive"):
        trained.recommend(Histories.of([[1]]), 0)
