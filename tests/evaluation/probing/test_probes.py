"""Probes in planted worlds: what is stored is found, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.probing.probes import (
    FittedProbe,
    SiteTasks,
    SplitScores,
    best_layers,
    draw_tasks,
    layer_probes,
    probe,
    summary,
)
from genrec_unlearn_bench.evaluation.probing.splits import Rows, split_rows
from genrec_unlearn_bench.evaluation.probing.states import pseudo_concept
from tests.evaluation.probing.worlds import CODES, CONFIG, ITEMS, FloatArray, numbers, world


def random_halves(states: FloatArray, rows: Rows) -> float:
    """AUROC of a probe on rows divided at random: what one gets without our precautions."""
    half = np.random.default_rng(0).permutation(len(rows)) < len(rows) // 2
    model = LogisticRegression(C=0.1, max_iter=500, class_weight="balanced").fit(states[half], rows.labels[half])
    return float(roc_auc_score(rows.labels[~half], model.decision_function(states[~half])))


def noise(rows: Rows, width: int, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(len(rows), width))


def test_a_concept_stored_linearly_is_found() -> None:
    rows = world().rows
    states = noise(rows, 24)
    states[:, 5:8] += 3.0 * rows.labels[:, None]
    found = numbers(states, rows)
    assert found["auroc_low"] > 0.97
    assert found["accuracy_low"] > 0.9
    assert found["selectivity_low"] > 0.3


def test_a_concept_that_is_not_stored_is_at_chance() -> None:
    rows = world().rows
    found = numbers(noise(rows, 24), rows)
    assert found["auroc_low"] < 0.5 < found["auroc_high"]
    assert found["accuracy_low"] < 0.5 < found["accuracy_high"]
    assert found["selectivity_low"] < 0 < found["selectivity_high"]


@pytest.mark.parametrize("seed", range(3))
def test_more_features_than_examples_find_nothing_where_nothing_is(seed: int) -> None:
    rows = world(seed, positives=120, negatives=360).rows
    found = numbers(noise(rows, 400), rows, seed=seed)
    assert found["auroc_low"] < 0.5 < found["auroc_high"]


def test_more_features_than_examples_still_find_what_is_there() -> None:
    rows = world(positives=120, negatives=360).rows
    states = noise(rows, 400)
    states[:, :3] += 6.0 * rows.labels[:, None]
    assert numbers(states, rows)["auroc"] > 0.9


def test_knowing_the_items_is_not_knowing_the_concept() -> None:
    rows = world().rows
    states = np.random.default_rng(2).normal(size=(ITEMS, 200))[rows.items]
    assert random_halves(states, rows) > 0.95
    found = numbers(states, rows)
    assert found["auroc_low"] < 0.5 < found["auroc_high"]


def test_knowing_the_users_is_not_knowing_the_concept() -> None:
    # Every user buys of one side alone, and the states say who the user is.
    rows = world().rows
    rows = replace(rows, users=np.where(rows.labels, rows.users % 60, 60 + rows.users % 60))
    states = np.random.default_rng(3).normal(size=(120, 200))[rows.users]
    assert random_halves(states, rows) > 0.9
    found = numbers(states, rows)
    assert found["auroc_low"] < 0.5 < found["auroc_high"]


def test_knowing_the_category_is_not_knowing_the_concept() -> None:
    # Nearly all of the concept is in half of the codes.
    rows = world(positives=600, negatives=1800).rows
    rng = np.random.default_rng(4)
    half = np.where(rng.random(ITEMS) < 0.8, np.arange(ITEMS) < 60, rng.random(ITEMS) < 0.5)
    code = np.where(half, 0, CODES // 2) + rng.integers(0, CODES // 2, ITEMS)
    rows = replace(rows, codes=code[rows.items])
    states = np.eye(CODES)[rows.codes] + 0.01 * noise(rows, CODES)
    assert random_halves(states, rows) > 0.75
    found = numbers(states, rows)
    assert found["auroc_low"] < 0.5 < found["auroc_high"]


def test_scores_and_strength_are_scikit_learns() -> None:
    rows = world().rows
    states = noise(rows, 12)
    states[:, 0] += 1.5 * rows.labels
    parts = split_rows(rows, np.random.default_rng(0), train=0.5, validation=0.2, minimum=3)
    grid = (1e-4, 1e-2, 1.0)
    found = probe(states, rows, parts, grid)
    scaler = StandardScaler().fit(states[parts.train])
    train, validation, test = (scaler.transform(states[part]) for part in (parts.train, parts.validation, parts.test))

    def loss(model: LogisticRegression) -> float:
        sure = model.predict_proba(validation)[np.arange(len(validation)), rows.labels[parts.validation].astype(int)]
        return float(-np.log(sure).mean())

    models = [LogisticRegression(C=strength, max_iter=1000).fit(train, rows.labels[parts.train]) for strength in grid]
    best = min(models, key=loss)
    assert np.allclose(found.test_scores.scores, best.decision_function(test), atol=2e-3)
    expected = roc_auc_score(rows.labels[parts.validation], best.decision_function(validation))
    assert found.validation == pytest.approx(expected, abs=2e-3)


def test_a_pseudo_concept_has_the_concepts_number_of_items_and_none_of_its_items() -> None:
    rows = world().rows
    drawn = pseudo_concept(rows, np.random.default_rng(0), single=False)
    assert not np.isin(drawn.items, rows.items[rows.labels]).any()
    assert len(np.unique(drawn.items[drawn.labels])) == len(np.unique(rows.items[rows.labels]))
    assert not np.isin(drawn.items[drawn.labels], drawn.items[~drawn.labels]).any()


def test_a_pseudo_concept_of_single_interactions_is_drawn_row_by_row() -> None:
    rows = world().rows
    drawn = pseudo_concept(rows, np.random.default_rng(0), single=True)
    assert drawn.labels.sum() == rows.labels.sum()
    assert np.isin(drawn.items[drawn.labels], drawn.items[~drawn.labels]).any()


def test_a_concept_without_a_control_task_is_still_probed() -> None:
    # Five negative items: two of them make no pseudo-concept that three parts could share.
    rows = world().rows
    rows = replace(rows, items=np.where(rows.labels, rows.items, ITEMS + rows.items % 5), codes=0 * rows.codes)
    tasks = draw_tasks(rows, CONFIG, 0)
    assert not tasks.control
    assert tasks.reason.startswith("no control task: ")
    assert "selectivity" not in numbers(noise(rows, 4), rows)


def test_no_more_positives_are_used_than_asked_for() -> None:
    rows = world().rows
    tasks = draw_tasks(rows, CONFIG.model_copy(update={"examples": 100}), 0)
    assert tasks.concept[0][0].labels.sum() == 100
    with pytest.raises(NotMeasurable, match="the 2 positives"):
        draw_tasks(rows, CONFIG.model_copy(update={"examples": 2}), 0)


def test_each_division_chooses_its_layer_on_its_own_validation_never_on_test() -> None:
    right, wrong = (
        SplitScores(sign * np.array([1.0, -1.0]), np.array([True, False]), np.arange(2)) for sign in (1, -1)
    )
    best_on_test = ([FittedProbe(right, 0.6), FittedProbe(right, 0.7)], [])
    best_on_validation = ([FittedProbe(wrong, 0.9), FittedProbe(wrong, 0.5)], [])
    assert best_layers([best_on_test, best_on_validation]).tolist() == [1, 0]


@pytest.mark.slow
def test_the_chosen_layers_of_many_that_know_nothing_are_at_chance() -> None:
    # A layer chosen by the mean over divisions has a mean AUROC of 0.55 here: it is chosen by what it is tested on.
    config, found = CONFIG.model_copy(update={"splits": 5}), []
    for seed in range(20):
        rows = world(seed).rows
        rng = np.random.default_rng(1000 + seed)
        tasks = draw_tasks(rows, config, seed)
        tasks = SiteTasks(tasks.concept, ())
        layers = [layer_probes(rng.normal(size=(ITEMS, 16))[rows.items], tasks, config) for _ in range(12)]
        own = [layers[layer][0][index] for index, layer in enumerate(best_layers(layers))]
        found.append(summary((own, []), tasks, config))
    covered = [float(each["auroc_low"]) < 0.5 < float(each["auroc_high"]) for each in found]  # type: ignore[arg-type]
    assert np.mean([each["auroc"] for each in found]) == pytest.approx(0.5, abs=0.035)  # type: ignore[list-item]
    assert np.mean(covered) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("by_item", [True, False])
def test_intervals_over_divisions_keep_their_coverage(by_item: bool) -> None:
    config, covered = CONFIG.model_copy(update={"splits": 5}), []
    for seed in range(40):
        rows = world(seed).rows
        rng = np.random.default_rng(2000 + seed)
        states = rng.normal(size=(ITEMS, 16))[rows.items] if by_item else rng.normal(size=(len(rows), 16))
        found = numbers(states, rows, config, seed)
        bounds = [(f"{name}_low", truth, f"{name}_high") for name, truth in (("auroc", 0.5), ("selectivity", 0.0))]
        covered.append([found[low] <= truth <= found[high] for low, truth, high in bounds])
    assert (np.mean(covered, axis=0) >= 0.92).all()
