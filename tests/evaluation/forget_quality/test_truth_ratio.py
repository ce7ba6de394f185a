"""Truth ratios against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.forget_quality.truth_ratio import (
    forget_aggregate,
    log_truth_ratios,
    retain_aggregate,
)
from genrec_unlearn_bench.evaluation.likelihoods.reading import Scored


def part(log_probs: list[list[float]], wrong: list[list[float]], lengths: list[list[int]]) -> Scored:
    targets = np.array(log_probs)
    nothing = np.zeros_like(targets)
    return Scored(targets, targets < 0, nothing, nothing, np.array(wrong), np.array(lengths))


def test_it_is_the_mean_wrong_likelihood_by_token_over_the_right_one() -> None:
    found = log_truth_ratios(part([[-1.0, -2.0, -3.0]], [[-3.0, -6.0]], [[3, 3]]))
    expected = ((np.exp(-1) + np.exp(-2)) / 2) / np.exp(-2)
    assert np.exp(found) == pytest.approx([expected])
    # The geometric mean of TOFU's code would be another number.
    assert np.exp(found) != pytest.approx([np.exp(-1.5) / np.exp(-2)], rel=0.05)


def test_every_item_counts_the_tokens_it_has() -> None:
    ragged = log_truth_ratios(part([[-1.0, -1.0, 0.0]], [[-2.0, -3.0]], [[2, 3]]))
    assert ragged == pytest.approx([0.0])


def test_items_that_are_not_there_have_no_part_in_the_mean() -> None:
    found = log_truth_ratios(part([[-2.0, -2.0], [-1.0, -1.0]], [[-2.0, np.nan], [np.nan, np.nan]], [[2, 0], [0, 0]]))
    assert found[0] == pytest.approx(1.0)
    assert np.isnan(found[1])


def test_only_the_first_examples_have_wrong_items() -> None:
    assert len(log_truth_ratios(part([[-1.0], [-2.0], [-3.0]], [[-1.0]], [[1]]))) == 1


def test_very_unlikely_targets_do_not_overflow() -> None:
    found = log_truth_ratios(part([[-5000.0]], [[-1.0]], [[1]]))
    assert found == pytest.approx([4999.0])
    assert forget_aggregate(found) == pytest.approx([0.0])
    assert retain_aggregate(found) == pytest.approx([0.0])


def test_aggregates() -> None:
    ratios = np.array([0.25, 1.0, 4.0])
    assert forget_aggregate(np.log(ratios)) == pytest.approx([0.25, 1.0, 0.25])
    assert retain_aggregate(np.log(ratios)) == pytest.approx([0.75, 0.0, 0.0])
