from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones import early_stopping
from genrec_unlearn_bench.backbones.etegrec.joint import aligned, first_occurrences, train_jointly, user_states
from genrec_unlearn_bench.backbones.etegrec.recommender import EtegrecRecommender
from genrec_unlearn_bench.backbones.etegrec.tokenizer import tokenizer_pass
from genrec_unlearn_bench.backbones.recommender import Context, StepOutput
from genrec_unlearn_bench.backbones.training import bucketed_batches
from genrec_unlearn_bench.data.examples import Examples, Histories
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.sids.table import SidTable
from tests.backbones.etegrec.world import CONFIG, ITEMS, SHAPE, begun, data, fitted, fresh, live


@pytest.fixture(scope="module")
def table() -> SidTable:
    return live()


def copies(*modules: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for module in modules for parameter in module.parameters()]


def moved(before: Iterable[Tensor], *modules: nn.Module) -> list[bool]:
    return [not torch.equal(a, b) for a, b in zip(before, copies(*modules), strict=True)]


@pytest.mark.parametrize("align", [False, True])
def test_each_epoch_moves_one_of_the_two_and_leaves_the_other(table: SidTable, align: bool) -> None:
    training = begun(table)
    recommender, heads, tokenizer = training.recommender.module, training.heads, training.tokenizer.model
    before, own = copies(recommender, heads), copies(tokenizer)
    training.epoch(0, tokenizer=True, align=align)
    assert not any(moved(before, recommender, heads))
    assert all(moved(own, tokenizer))
    own = copies(tokenizer)
    training.epoch(1, tokenizer=False, align=align)
    assert not any(moved(own, tokenizer))
    assert any(moved(before, recommender, heads))


def test_alignment_reaches_the_tokenizer_and_the_heads(table: SidTable) -> None:
    """Only with the alignment losses do the tokenizer's steps depend on the recommender, and do the heads learn."""
    plain, tied = begun(table), begun(table)
    plain.epoch(0, tokenizer=True, align=False)
    tied.epoch(0, tokenizer=True, align=True)
    assert any(moved(copies(plain.tokenizer.model), tied.tokenizer.model))
    heads = copies(tied.heads)
    tied.epoch(1, tokenizer=False, align=True)
    assert all(moved(heads, tied.heads))


@pytest.mark.parametrize("tokenizer", [True, False])
def test_a_step_in_parts_descends_the_mean_of_their_losses(table: SidTable, tokenizer: bool) -> None:
    """As four GPUs do: each part has its own distinct targets and negatives, so one large batch is another loss."""
    rows = np.random.default_rng(0).permutation(len(data().train))
    joint = CONFIG.joint.model_copy(update={"batch_size": len(rows), "parts": 4})
    by_hand = begun(table)
    by_hand.freeze(tokenizer=not tokenizer)
    by_hand.recommender.module.train(not tokenizer)
    losses = by_hand._tokenizer_losses if tokenizer else by_hand._recommender_losses
    generator = numpy_generator(0, "joint", "epoch", 3)
    (batch,) = bucketed_batches(by_hand.train.history_lengths(SHAPE.history_limit), len(rows), generator)
    mean = torch.stack([losses(part, align=True)[0] for part in np.array_split(batch, 4)]).mean()
    weights = list((by_hand.tokenizer.model if tokenizer else by_hand.heads).parameters())
    expected = torch.autograd.grad(mean, weights, retain_graph=True)
    whole = torch.autograd.grad(losses(batch, align=True)[0], weights)

    training = begun(table, config=CONFIG.model_copy(update={"joint": joint}))
    training.epoch(3, tokenizer=tokenizer, align=True)
    found = list((training.tokenizer.model if tokenizer else training.heads).parameters())
    assert all(one.grad is not None for one in found)
    # Clipping scales all gradients of a step alike.
    ratio = float(found[0].grad.norm() / expected[0].norm())
    for one, gradient in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, ratio * gradient, rtol=1e-3, atol=1e-6)
    assert not torch.allclose(expected[0], whole[0], rtol=1e-2, atol=0)


def test_codes_are_worked_out_anew_and_labels_follow(table: SidTable) -> None:
    progress = Progress()
    training = begun(table, progress)
    first = training.recommender.sids
    assert first.digest == table.digest
    training.epoch(0, tokenizer=True, align=False)
    now = training.recommender.sids
    assert (first.codes != now.codes).any()
    np.testing.assert_array_equal(now.codes, training.tokenizer.table().codes)
    for level, distances in enumerate(now.distances(np.arange(ITEMS))):
        np.testing.assert_array_equal(distances.argmin(1), now.codes[:, level])
    changed = np.flatnonzero((first.codes != now.codes).any(axis=1))[:4]
    labels = training.recommender.forward(Histories.of([[1, 2]] * len(changed)), changed).labels.numpy()
    np.testing.assert_array_equal(labels - np.asarray(training.recommender.vocabulary.offsets), now.codes[changed])
    share = progress.steps[-1].losses["moved"]
    assert share == pytest.approx((first.quantised_codes != now.quantised_codes).any(1).mean())


def test_the_losses_of_a_batch_with_repeated_targets_are_those_of_its_distinct_ones(table: SidTable) -> None:
    training = begun(table)
    training.recommender.module.eval()
    targets = training.train.targets
    rows = np.concatenate([np.flatnonzero(targets == item)[:3] for item in np.unique(targets)[:6]])
    first = first_occurrences(targets[rows])
    assert len(first) == 6 < len(rows)
    users, _ = training._read(rows)
    alone, _ = training._read(rows[first])
    torch.testing.assert_close(users[1][torch.from_numpy(first)], alone[1], rtol=1e-4, atol=1e-5)
    model = training.tokenizer.model
    given = tokenizer_pass(model, training.tokenizer.vectors[torch.from_numpy(targets[rows[first]])])
    total, ties = aligned(CONFIG.alignment, training.heads, model, alone, given)
    assert ties["psa"].item() > 0
    torch.testing.assert_close(total, 0.01 * ties["sia"] + 0.03 * ties["psa"])


def test_pooling_reads_real_positions_alone() -> None:
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    context = Context(states, mask, torch.zeros(1, 3, dtype=torch.long))
    output = StepOutput(torch.zeros(1, 1, 4), torch.zeros(1, 1, dtype=torch.long), (states[:, :1],))
    torch.testing.assert_close(user_states(context, output)[0], torch.tensor([[2.0, 3.0]]))


def test_the_best_cycle_comes_back_as_a_whole(table: SidTable, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[EtegrecRecommender, list[Tensor]]] = []

    def falling(recommender: EtegrecRecommender, valid: Examples) -> float:
        seen.append((recommender, copies(recommender.module)))
        return 1 / len(seen)

    monkeypatch.setattr(early_stopping, "validation_ndcg", falling)
    progress = Progress()
    result, *_ = train_jointly(fresh(table), CONFIG, data(), table, seed=0, device="cpu", progress=progress)
    assert len(seen) == 2
    first, weights = seen[0]
    assert (first.sids.codes != seen[1][0].sids.codes).any()
    np.testing.assert_array_equal(result.sids.codes, first.sids.codes)
    assert result.sids.frozen
    assert not any(moved(weights, result.module))
    assert progress.notes["joint.best_valid_ndcg@10"] == 1.0


def test_the_second_stage_leaves_the_codes_of_the_first(table: SidTable) -> None:
    progress = Progress()
    done = fitted(table, progress=progress)
    same_start = EtegrecRecommender.fresh(CONFIG.shape, table.freeze(), seed=derive(0, "weights"))
    same_start.rescale(CONFIG.initial_deviation)
    joint, *_ = train_jointly(same_start, CONFIG, data(), table, seed=0, device="cpu", progress=Progress())
    np.testing.assert_array_equal(done.sids.codes, joint.sids.codes)
    assert (done.sids.codes != table.codes).any()
    assert done.sids.frozen
    for level, distances in enumerate(done.sids.distances(np.arange(ITEMS))):
        np.testing.assert_array_equal(distances.argmin(1), done.sids.codes[:, level])
    stages = {step.stage for step in progress.steps}
    assert {"joint.tokenizer", "joint.recommender", "second", "second.valid"} <= stages
    by_epoch = {
        step.step: step.losses for step in progress.steps if step.stage.startswith("joint.") and "moved" in step.losses
    }
    assert "sia" not in by_epoch[0]
    assert by_epoch[2]["sia"] > 0
    assert by_epoch[2]["psa"] > 0


def test_training_on_a_frozen_table_trains_the_recommender_alone(table: SidTable) -> None:
    deployed = fitted(table).sids
    progress = Progress()
    again = fitted(deployed, progress=progress)
    assert again.sids.digest == deployed.digest
    assert {step.stage for step in progress.steps} == {"train", "train.valid"}


def test_seeds_decide_everything(table: SidTable) -> None:
    histories = Histories.of([[1, 2], [40, 41, 42]])
    one, two, other = (fitted(table, seed=seed).recommend(histories, 10).log_probs for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_a_tokenizer_that_runs_away_ends_the_run_with_its_name(table: SidTable) -> None:
    wild = CONFIG.model_copy(update={"joint": CONFIG.joint.model_copy(update={"lr_tokenizer": 1e5})})
    with pytest.raises(BenchError, match=r"(RQ-VAE|tokenizer) (diverged|collapsed)"):
        fitted(table, wild)


def test_a_recommender_that_runs_away_is_marked_and_its_weights_stay_finite(table: SidTable) -> None:
    wild = CONFIG.model_copy(
        update={"joint": CONFIG.joint.model_copy(update={"lr_recommender": 1e30}), "second": CONFIG.second}
    )
    progress = Progress()
    done = fitted(table, wild, progress=progress)
    assert progress.diverged
    assert all(bool(torch.isfinite(weight).all()) for weight in done.module.parameters())
