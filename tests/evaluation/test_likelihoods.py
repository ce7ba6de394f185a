"""The reading of likelihoods against numbers computed one example at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from genrec_unlearn_bench import testing as planted
from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.data.holdout import Holdout
from genrec_unlearn_bench.evaluation.likelihood_scoring import (
    MOST,
    drawn,
    own_moments,
    score,
    score_groups,
    wrong_items,
)
from genrec_unlearn_bench.evaluation.likelihoods import LIKELIHOODS, ExampleGroup, Scored, scored
from genrec_unlearn_bench.evaluation.measurement import Subject
from genrec_unlearn_bench.progress import Progress
from tests import small
from tests.backbones import several
from tests.evaluation.planted import examples, features, manifest

HISTORIES = Histories.of([[1, 2, 3], [4], [5, 6], [7, 8, 9, 10], [11, 12]])
TARGETS = np.array([3, 20, 11, 1, 40])
WRONG = np.array([[1, 2, 9, -1, -1], [5, 6, 7, 8, 9], [0, 3, 5, 6, 21]])

FAMILIES: dict[str, Callable[[], Recommender]] = {"t5": small.t5, "causal": small.causal, "ragged": several.ragged_t5}


def read_groups(subject: Subject, progress: Progress) -> dict[ExampleGroup, Scored]:
    arrays = score_groups(subject, progress)
    return {group: scored({LIKELIHOODS.name: arrays}, group) for group in ExampleGroup}


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_one_example_at_a_time(family: str) -> None:
    model = FAMILIES[family]()
    size = len(model.sids)
    histories = Histories(np.where(HISTORIES.items < 0, -1, HISTORIES.items % size), np.full(5, -1))
    targets, wrong = TARGETS % size, np.where(WRONG < 0, -1, WRONG % size)
    found = score(model, histories, targets, wrong, label="", progress=Progress())
    for row, target in enumerate(targets):
        one = histories.rows(np.array([row]))
        with torch.no_grad():
            step = model.forward(one, np.array([target]))
        log_p = step.logits[0].double().log_softmax(-1).numpy()
        length = int((model.sids.codes[target] >= 0).sum())
        labels = step.labels[0].numpy()
        for level in range(length):
            p = np.exp(log_p[level])
            mean = float(p @ log_p[level])
            assert found.log_probs[row, level] == pytest.approx(log_p[level, labels[level]], abs=1e-4)
            assert found.mean[row, level] == pytest.approx(mean, abs=1e-4)
            assert found.sd[row, level] ** 2 == pytest.approx(float(p @ (log_p[level] - mean) ** 2), rel=1e-3)
        assert found.real[row].tolist() == [level < length for level in range(model.sids.levels)]
        assert not found.log_probs[row, length:].any()
    for row, items in enumerate(wrong):
        for place, item in enumerate(items):
            if item < 0:
                assert np.isnan(found.wrong[row, place])
                assert found.wrong_lengths[row, place] == 0
                continue
            alone = model.target_log_probs(histories.rows(np.array([row])), np.array([item]))
            assert found.wrong[row, place] == pytest.approx(float(alone.sum()), abs=1e-3)
            assert found.wrong_lengths[row, place] == (model.sids.codes[item] >= 0).sum()


def test_ragged_ids_are_there_to_be_tested() -> None:
    assert (several.ragged_t5().sids.codes < 0).any()


def test_batches_do_not_change_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small.t5()
    whole = score(model, HISTORIES, TARGETS, WRONG, label="", progress=Progress())
    monkeypatch.setattr("genrec_unlearn_bench.evaluation.likelihood_scoring.LOGITS", 1)
    single = score(model, HISTORIES, TARGETS, WRONG, label="", progress=Progress())
    assert np.allclose(whole.log_probs, single.log_probs, atol=1e-5)
    assert np.allclose(whole.wrong, single.wrong, atol=1e-5, equal_nan=True)


def test_a_model_in_training_is_scored_without_dropout_and_left_as_it_was() -> None:
    model = small.t5()
    expected = score(model, HISTORIES, TARGETS, WRONG, label="", progress=Progress())
    model.module.train()
    found = score(model, HISTORIES, TARGETS, WRONG, label="", progress=Progress())
    assert model.module.training
    assert np.array_equal(found.log_probs, expected.log_probs)


def test_moments_are_of_the_log_probability_and_bear_impossible_tokens() -> None:
    p = torch.tensor([[0.5, 0.25, 0.25, 0.0]])
    mean, sd = own_moments(p.log())
    expected = float((p[:, :3] * p[:, :3].log()).sum())
    assert float(mean) == pytest.approx(expected)
    # Of p itself the standard deviation would be .125.
    assert float(sd) == pytest.approx(float(np.log(2)) / 2)


def task(kind: ConceptKind = ConceptKind.BRAND) -> tuple[ForgetSplit, Holdout]:
    generator = np.random.default_rng(0)
    concept = planted.concept()
    targets = [np.flatnonzero(concept), np.flatnonzero(~concept)]

    def part(side: int, count: int) -> object:
        wanted = generator.choice(targets[side], size=count)
        return examples([[(target + 1 + row) % 64 for row in range(3)] for target in wanted], wanted.tolist())

    train = Groups(part(0, 30), part(1, 40))  # type: ignore[arg-type]
    nothing = np.zeros((0, 2), dtype=np.int64)
    split = ForgetSplit(kind, concept, nothing, train, train, train, manifest(kind))
    return split, Holdout(nothing, part(0, 12), part(1, 14), "planted")  # type: ignore[arg-type]


def subject(model: Recommender, seed: int = 0) -> Subject:
    split, holdout = task()
    text = planted.features(planted.sids())
    return Subject(model, planted.sids(), split, text, holdout, "smoke", seed)


def test_every_group_is_read_and_comes_back_as_it_was() -> None:
    one = subject(small.t5())
    groups = read_groups(one, Progress())
    assert {part: len(found) for part, found in groups.items()} == {
        ExampleGroup.FORGET_TRAIN: 30,
        ExampleGroup.FORGET_HOLDOUT: 12,
        ExampleGroup.RETAIN_TRAIN: 40,
        ExampleGroup.RETAIN_HOLDOUT: 14,
    }
    assert groups[ExampleGroup.FORGET_HOLDOUT].wrong.shape == (0, 5)
    arrays = LIKELIHOODS.run(one, Progress()).samples
    back = scored({LIKELIHOODS.name: arrays}, ExampleGroup.FORGET_TRAIN)
    for name, value in vars(groups[ExampleGroup.FORGET_TRAIN]).items():
        assert np.array_equal(getattr(back, name), value, equal_nan=value.dtype.kind == "f")


def test_all_models_of_a_seed_are_asked_the_same() -> None:
    part, _ = task()
    once, again, other = (drawn(part.train.forget, ExampleGroup.FORGET_TRAIN, seed) for seed in (0, 0, 1))
    assert np.array_equal(once.ends, again.ends)
    assert not np.array_equal(once.ends, other.ends)
    many = examples([[1]] * (MOST + 5), [2] * (MOST + 5))
    assert len(drawn(many, ExampleGroup.FORGET_TRAIN, 0)) == MOST


def test_members_that_repeat_their_history_are_left_out() -> None:
    """The holdout has none: its pairs are taken out of all histories."""
    part = examples([[1, 2], [3, 4, 5], [6]], [2, 7, 6])
    assert drawn(part, ExampleGroup.FORGET_TRAIN, 0).targets.tolist() == [7]


def test_old_ids_are_scored_with_old_histories_where_items_were_moved() -> None:
    model = small.t5()
    one = subject(model)
    unmoved = read_groups(one, Progress())[ExampleGroup.FORGET_TRAIN]
    assert unmoved.old is not None
    assert np.array_equal(unmoved.old, unmoved.log_probs)
    moved_items = np.flatnonzero(one.split.items)
    table = model.sids.reassigned(moved_items, np.roll(model.sids.codes[moved_items], 1, axis=0))
    moved = read_groups(replace(one, recommender=model.with_sids(table)), Progress())[ExampleGroup.FORGET_TRAIN]
    assert moved.old is not None
    assert np.allclose(moved.old, unmoved.log_probs, atol=1e-5)
    assert not np.allclose(moved.log_probs, unmoved.log_probs, atol=1e-2)


def test_another_tokenizers_ids_are_not_read_as_the_original_ones() -> None:
    model = small.t5()
    other = replace(model.sids, codes=np.roll(model.sids.codes, 8, axis=0))
    groups = read_groups(subject(model.with_sids(other)), Progress())
    assert all(found.old is None for found in groups.values())


def test_what_is_blocked_in_serving_is_scored_all_the_same() -> None:
    model = small.t5()
    blocked = model.with_serving(ServingRules(blocked=planted.concept()))
    plain, served = (read_groups(subject(each), Progress())[ExampleGroup.FORGET_TRAIN] for each in (model, blocked))
    assert np.array_equal(plain.log_probs, served.log_probs)


def test_wrong_items_are_near_and_neither_right_nor_of_the_concept() -> None:
    text, table, concept = planted.features(planted.sids()), planted.sids(), planted.concept()
    targets = np.array([3, 10, 3, 40])
    found = wrong_items(text, table, targets, concept)
    assert found.shape == (4, 5)
    assert np.array_equal(found[0], found[2])
    assert not concept[found].any()
    assert not (found == targets[:, None]).any()
    cosine = text.scrubbed[10] @ text.scrubbed.T
    cosine[concept] = -np.inf
    cosine[10] = -np.inf
    assert set(found[1]) == set(np.argsort(-cosine)[:5])


def test_concept_items_are_let_in_only_where_nothing_else_is_left() -> None:
    text, table = planted.features(planted.sids()), planted.sids()
    every = np.ones(64, dtype=np.bool_)
    assert (wrong_items(text, table, np.array([3]), every) >= 0).all()
    tiny = replace(table, codes=table.codes[:3], latents=None)
    found = wrong_items(features(3), tiny, np.array([0]), np.zeros(3, dtype=np.bool_))
    assert sorted(found[0].tolist()) == [-1, -1, -1, 1, 2]
