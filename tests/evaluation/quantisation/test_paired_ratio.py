"""Ratios of paired means: value, coverage, and when there is none."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.quantisation.paired_ratio import paired_ratio


def test_equal_rows_give_one_without_spread() -> None:
    rows = np.array([1.0, 0.0, 1.0, 1.0] * 10)
    found = paired_ratio(rows, rows, what="it")
    assert (found.value, found.low, found.high, found.n) == (1.0, 1.0, 1.0, 40)


def test_value_and_delta_method() -> None:
    rng = np.random.default_rng(0)
    below = rng.normal(2.0, 0.5, 400)
    above = 0.3 * below + rng.normal(0.0, 0.4, 400)
    found = paired_ratio(above, below, what="it")
    assert found.value == pytest.approx(above.mean() / below.mean())
    # Half width by the delta method, for paired rows: a bootstrap that draws the rows apart is half as wide again.
    half = 1.96 * np.std(above - found.value * below, ddof=1) / below.mean() / np.sqrt(400)
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


def test_coverage() -> None:
    held = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        below = (rng.random(80) < 0.6).astype(float)
        above = below * (rng.random(80) < 0.5)
        found = paired_ratio(above, below, what="it")
        held += found.low <= 0.5 <= found.high
    assert 0.88 <= held / 80 <= 0.99


@pytest.mark.parametrize(
    ("below", "reason"),
    [
        (np.zeros(30), "it is 0, and only above 0"),
        (-np.ones(30), "it is -1, and only above 0"),
        (np.r_[1.0, np.zeros(29)], "cannot tell from 0"),
        (np.ones(1), "over 1 examples"),
    ],
)
def test_nothing_to_divide_by(below: np.ndarray, reason: str) -> None:
    with pytest.raises(NotMeasurable, match=reason):
        paired_ratio(np.ones(len(below)), below, what="it")
