from __future__ import annotations

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import Schedule, T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.early_stopping import validation_ndcg
from genrec_unlearn_bench.backbones.sasrec import Popularity
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import bucketed_batches, train_recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress
from tests.planted import examples, sequences, sids

SHAPE = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=1, heads=4, dropout=0.1, history_limit=4)
CONFIG = TrainingConfig(lr=5e-3, batch_size=64, epochs=2, warmup_steps=5, evaluations=2, valid_rows=50)


def run(seed: int, config: TrainingConfig = CONFIG) -> tuple[T5Recommender, Progress]:
    torch.set_num_threads(1)
    model, progress = T5Recommender.fresh(SHAPE, sids(), seed=seed), Progress()
    data, held = examples(sequences(80, 6, 1)), examples(sequences(20, 6, 2))
    train_recommender(model, config, train=data, valid=held, seed=seed, device="cpu", progress=progress)
    return model, progress


def test_batches_cover_every_row_once_and_hardly_pad() -> None:
    lengths = np.random.default_rng(0).integers(1, 50, size=5000)
    batches = list(bucketed_batches(lengths, 64, np.random.default_rng(1)))
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(5000))
    padded = sum(len(b) * lengths[b].max() for b in batches)
    assert padded < 1.05 * lengths.sum()
    again = list(bucketed_batches(lengths, 64, np.random.default_rng(2)))
    assert not np.array_equal(batches[0], again[0])


def test_same_seed_same_bits_and_other_seed_other_bits() -> None:
    state = torch.random.get_rng_state()
    first, second, third = run(0)[0], run(0)[0], run(1)[0]
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator was touched"
    for name, tensor in first.module.state_dict().items():
        assert torch.equal(tensor, second.module.state_dict()[name]), name
    assert any(not torch.equal(t, third.module.state_dict()[n]) for n, t in first.module.state_dict().items())


def test_the_best_checkpoint_is_returned() -> None:
    model, progress = run(0, CONFIG.model_copy(update={"epochs": 8, "evaluations": 8, "patience": 2}))
    scores = [s.losses["ndcg@10"] for s in progress.steps if s.stage == "train.valid"]
    assert progress.notes["train.best_valid_ndcg@10"] == max(scores)
    held = examples(sequences(20, 6, 2))
    rows = held.subset(np.arange(len(held)))
    assert validation_ndcg(model, rows) > 0.3


def test_schedule_warms_up_and_decays() -> None:
    cosine = Schedule("cosine", 10, 110)
    assert cosine.factor(0) == pytest.approx(0.1)
    assert cosine.factor(9) == cosine.factor(10) == pytest.approx(1.0)
    assert cosine.factor(60) == pytest.approx(0.5)
    assert cosine.factor(110) == pytest.approx(0.0)
    assert Schedule("inverse-sqrt", 100, 10_000).factor(399) == pytest.approx(0.5)


def test_nothing_to_train_on_is_said() -> None:
    model = T5Recommender.fresh(SHAPE, sids(), seed=0)
    data = examples(sequences(3, 4, 1))
    empty = data.subset(np.zeros(len(data), dtype=bool))
    with pytest.raises(DataFault, match="nothing to train on"):
        train_recommender(model, CONFIG, train=empty, valid=data, seed=0, device="cpu", progress=Progress())


def test_popularity_ranks_by_counts_with_ties_in_item_order() -> None:
    data = examples([[0, 5, 5, 3], [0, 3, 1]])
    model = Popularity.fit(data, 8)
    ranking = model.recommend(Histories.of([[1], []]), 4)
    np.testing.assert_array_equal(ranking.items, [[3, 5, 1, 0]] * 2)
    assert (np.diff(ranking.log_probs[0]) <= 0).all()


def test_a_step_in_parts_has_the_gradient_of_the_whole() -> None:
    torch.set_num_threads(1)
    shape = SHAPE.model_copy(update={"dropout": 0.0})
    data, held = examples(sequences(40, 6, 1)), examples(sequences(5, 6, 2))
    models = []
    for size in (None, 7, 1000):
        model = T5Recommender.fresh(shape, sids(), seed=0)
        config = CONFIG.model_copy(update={"rows_at_once": size, "max_steps": 3, "evaluations": 1})
        train_recommender(model, config, train=data, valid=held, seed=0, device="cpu", progress=Progress())
        models.append(model)
    for name, tensor in models[0].module.state_dict().items():
        for other in models[1:]:
            torch.testing.assert_close(tensor, other.module.state_dict()[name], atol=2e-4, rtol=0)
