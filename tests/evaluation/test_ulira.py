"""U-LiRA: the ratio by hand, nothing told where there is nothing, and much where nothing was unlearned."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from genrec_unlearn_bench.evaluation import ulira
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.evaluation.ulira import confidence, halves, likelihood_ratios, rates, ulira_values

Array = NDArray[np.float64]


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ulira, "DRAWS", 150)


def world(seed: int, shadows: int, *, left: float, examples: int = 200) -> tuple[Array, NDArray[np.bool_]]:
    """Confidences of shadows that differ from each other as a whole, in examples of different difficulty.

    ``left``: what unlearning leaves of an example in the models that were trained on it, in deviations of the noise.
    """
    rng = np.random.default_rng(seed)
    included = halves(shadows, examples, rng)
    noise = rng.normal(0, 1, (shadows, 1)) + rng.normal(0, 1, (shadows, examples))
    return rng.normal(0, 3, examples) + noise + left * included, included


def values(confidences: Array, included: NDArray[np.bool_]) -> dict[str, MetricValue]:
    found = ulira_values(confidences, included)
    assert check_invariants(found) == []
    return {value.metric.split(".")[1]: value for value in found}


def test_confidence_is_the_log_of_the_odds() -> None:
    chances = np.array([0.5, 0.9, 0.01])
    assert confidence(np.log(chances)) == pytest.approx(np.log(chances / (1 - chances)))
    # As 1 - p is 1 where p is too small for it, and p is 1 where float32 sees no difference.
    assert confidence(np.array([-80.0, -700.0])) == pytest.approx([-80.0, -700.0])
    assert np.isfinite(confidence(np.array([0.0, -1e-30]))).all()


def test_halves() -> None:
    found = halves(6, 31, np.random.default_rng(0))
    assert found.sum(axis=0).tolist() == [3] * 31
    assert (found[0::2] == ~found[1::2]).all()
    assert found.sum(axis=1).tolist() == [15, 16] * 3
    assert not (found[0] == found[2]).all()
    with pytest.raises(ValueError, match="no pairs"):
        halves(5, 10, np.random.default_rng(0))


def test_the_ratio_by_hand() -> None:
    """Four shadows, two examples. Shadow 0 is judged by 2 and 3; variances are those around 1, 2 and 3's means."""
    included = np.array([[True, True], [False, False], [True, False], [False, True]])
    given = np.array([[1.0, 5.0], [0.0, 2.0], [3.0, 4.0], [-1.0, 7.0]])
    # In: of 1 … 3, each example has one shadow that saw it, so there is no spread to see: the floor.
    # Out: example 0 has 0 and -1 around -.5, example 1 has 2 and 4 around 3: (.5 + 2) / 2 = 1.25.
    found = likelihood_ratios(given, included)[0]
    wanted = [
        stats.norm.logpdf(x, inside, 1e-6) - stats.norm.logpdf(x, outside, np.sqrt(1.25))
        for x, inside, outside in ((1.0, 3.0, -1.0), (5.0, 7.0, 4.0))
    ]
    assert found == pytest.approx(wanted)


def test_the_ratio_is_that_of_scipy() -> None:
    given, included = world(0, 8, left=1.0, examples=5)
    found = likelihood_ratios(given, included)
    for judged in range(8):
        others = [k for k in range(8) if k != judged]
        apart = [k for k in others if k // 2 != judged // 2]
        for example in range(5):
            logs = []
            for side in (True, False):
                squares, freedom = 0.0, 0
                for each in range(5):
                    rows = [given[k, each] for k in others if included[k, each] == side]
                    squares, freedom = squares + np.var(rows) * len(rows), freedom + len(rows) - 1
                mean = np.mean([given[k, example] for k in apart if included[k, example] == side])
                logs.append(stats.norm.logpdf(given[judged, example], mean, np.sqrt(squares / freedom)))
            assert found[judged, example] == pytest.approx(logs[0] - logs[1])


def test_rates_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    members = rng.random(500) < 0.4
    scores = np.round(rng.normal(members, 1.0), 1) - 0.5
    found = rates(scores, members)
    assert found["auc"] == pytest.approx(roc_auc_score(members, scores))
    assert found["accuracy"] == pytest.approx(balanced_accuracy_score(members, scores > 0))
    thresholds = np.unique(scores)
    allowed = [t for t in thresholds if (scores[~members] >= t).mean() <= 0.01]
    assert found["tpr"] == pytest.approx(max((scores[members] >= t).mean() for t in allowed))
    assert rates(np.zeros(10), np.arange(10) < 5) == {"auc": 0.5, "tpr": 0.0, "accuracy": 0.5}


@pytest.mark.parametrize("shadows", [4, 8])
def test_one_distribution_is_not_told_apart_nor_below_chance(shadows: int) -> None:
    """Retrained models: in and out are one distribution. With means of unequal sizes the AUC would be near .4."""
    areas = []
    for seed in range(60):
        given, included = world(seed, shadows, left=0.0)
        areas.append(rates(likelihood_ratios(given, included).ravel(), included.ravel())["auc"])
    low, high = stats.ttest_1samp(areas, 0.5).confidence_interval(0.999)
    assert low <= 0.5 <= high
    assert high - low < 0.03


@pytest.mark.slow
def test_the_interval_holds_chance() -> None:
    held = [values(*world(seed, 4, left=0.0, examples=100)) for seed in range(20)]
    for name, chance in (("auc", 0.5), ("accuracy", 0.5), ("tpr", 0.01)):
        holding = [low <= chance <= high for found in held for low, high in [found[name].interval or (1.0, 0.0)]]
        assert sum(holding) >= 16


def test_a_method_that_does_nothing_is_found_out() -> None:
    found = values(*world(1, 8, left=4.0))
    assert found["auc"].value is not None
    assert found["auc"].value > 0.9
    assert found["auc"].interval is not None
    assert found["auc"].interval[0] > 0.85
    assert found["tpr"].value is not None
    assert found["tpr"].value > 0.2
    assert found["accuracy"].value is not None
    assert found["accuracy"].value > 0.8
    assert found["auc"].n == 8 * 200


def test_over_unlearning_is_found_out_as_well() -> None:
    found = values(*world(2, 8, left=-4.0))
    assert found["auc"].value is not None
    assert found["auc"].value > 0.9


def test_what_cannot_be_measured() -> None:
    given, included = world(0, 4, left=0.0, examples=30)
    found = values(given, included)
    assert found["auc"].value is not None
    assert found["tpr"].note == "one false positive in 100 cannot be resolved with 60 judgements"
    given[2, 7] = np.nan
    assert {value.note for value in values(given, included).values()} == {
        "the weights of shadow 3 of 4 came to nothing finite"
    }
    with pytest.raises(NotMeasurable, match="there are 1 forget train interactions"):
        ulira_values(given[:, :1], included[:, :1])
