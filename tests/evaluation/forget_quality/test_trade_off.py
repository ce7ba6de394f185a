"""ToW-rel and the average gap against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.forget_quality.trade_off import Accuracies, average_gap, interval, tug_of_war


def accuracies(run: list[float], retrained: list[float], original: list[float]) -> Accuracies:
    return Accuracies(*(np.array(values) for values in (run, retrained, original)))


def test_by_hand() -> None:
    found = accuracies([0.06, 0.10, 0.08], [0.02, 0.12, 0.08], [0.10, 0.20, 0.10])
    assert float(tug_of_war(found)) == pytest.approx(0.6 * 0.9 * 1.0)
    assert float(average_gap(found)) == pytest.approx(0.02)
    # In absolute accuracies the product would hide the difference.
    assert 0.96 * 0.98 > 0.94


def test_the_retrained_model_is_at_one() -> None:
    found = accuracies([0.02, 0.12, 0.08], [0.02, 0.12, 0.08], [0.10, 0.20, 0.10])
    assert float(tug_of_war(found)) == 1.0
    assert float(average_gap(found)) == 0.0


def test_two_great_differences_do_not_make_something_good() -> None:
    found = accuracies([0.5, 0.5, 0.1], [0.1, 0.1, 0.1], [0.1, 0.1, 0.1])
    assert float(tug_of_war(found)) == 0.0


def test_nothing_is_in_proportion_to_an_original_without_hits() -> None:
    assert np.isnan(tug_of_war(accuracies([0.1, 0.1, 0.1], [0.1, 0.1, 0.1], [0.0, 0.1, 0.1])))


def test_models_are_looked_at_on_the_same_draws() -> None:
    generator = np.random.default_rng(0)
    hits = [np.repeat((generator.random((300, 1)) < 0.3).astype(np.float64), 3, axis=1) for _ in range(3)]
    assert interval(tug_of_war, hits) == (1.0, 1.0)
    assert interval(average_gap, hits) == (0.0, 0.0)


def test_it_holds_what_was_measured_though_samples_lean_away() -> None:
    """As good as the retrained model by number, on other examples: nearly every sample is worse."""
    run, retrained = np.zeros(400), np.zeros(400)
    run[:40], retrained[40:80] = 1.0, 1.0
    hits = [np.stack([run, retrained, np.ones(400)], axis=1) for _ in range(3)]
    for measure, value in ((tug_of_war, 1.0), (average_gap, 0.0)):
        low, high = interval(measure, hits)
        assert low <= value <= high
        assert low < high


def test_the_interval_holds_the_truth() -> None:
    rates = np.array([[0.6, 0.2, 0.7], [0.4, 0.5, 0.5], [0.5, 0.5, 0.6]])
    truth = float(tug_of_war(Accuracies(*rates.T)))
    generator = np.random.default_rng(1)
    held = []
    for _ in range(15):
        low, high = interval(tug_of_war, [(generator.random((200, 3)) < rate).astype(np.float64) for rate in rates])
        held.append(low <= truth <= high)
    assert np.mean(held) >= 0.8
