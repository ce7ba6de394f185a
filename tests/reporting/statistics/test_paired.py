"""The paired t-test over seeds equals scipy's where there is one, and says what it does where there is none."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from genrec_unlearn_bench.reporting.statistics.paired import SMALLEST_P, paired_tests, t_interval

NAN = float("nan")


# Six digits, as records have them: what is below 1e-12 is rounding to us and a difference to scipy.
METRICS = st.integers(-(10**6), 10**6).map(lambda number: number / 10**6)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 12).flatmap(lambda n: arrays(np.float64, (2, n), elements=METRICS)),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_equals_scipy(scores: np.ndarray, confidence: float) -> None:
    differences = scores[0] - scores[1]
    if np.ptp(differences) < 1e-7:
        return  # the same on every seed, which scipy has no answer for
    found = paired_tests(differences[None], confidence=confidence)
    peer = stats.ttest_rel(scores[0], scores[1])
    interval = peer.confidence_interval(confidence)
    assert found.p[0] == pytest.approx(max(peer.pvalue, SMALLEST_P), rel=1e-9)
    assert [found.low[0], found.high[0]] == pytest.approx([interval.low, interval.high], rel=1e-9, abs=1e-12)
    assert found.estimate[0] == pytest.approx(differences.mean(), rel=1e-9, abs=1e-12)
    assert found.n[0] == len(differences)
    assert not found.exact[0]
    assert 0.0 < found.p[0] <= 1.0


def test_rows_do_not_see_each_other_and_missing_seeds_are_left_out() -> None:
    values = np.random.default_rng(0).normal(size=(40, 8))
    values[np.random.default_rng(1).random(values.shape) < 0.4] = NAN
    together = paired_tests(values)
    for row, line in enumerate(values):
        alone = paired_tests(line[np.isfinite(line)][None])
        for name in ("estimate", "low", "high", "p", "effect", "n", "exact"):
            assert getattr(together, name)[row] == pytest.approx(getattr(alone, name)[0], rel=1e-12, nan_ok=True)


def test_swapping_the_methods_turns_the_sign_and_keeps_p() -> None:
    values = np.random.default_rng(2).normal(0.3, 1.0, size=(50, 5))
    one, other = paired_tests(values), paired_tests(-values)
    assert np.array_equal(one.p, other.p)
    assert np.array_equal(one.estimate, -other.estimate)
    assert np.array_equal(one.low, -other.high)
    assert np.array_equal(one.effect, -other.effect)


def test_no_difference_anywhere_is_no_evidence() -> None:
    found = paired_tests([[0.0, 0.0, 0.0], [1e-17, -1e-17, 3e-17], [0.1 + 0.2 - 0.3, 0.0, NAN]])
    assert np.array_equal(found.p, [1.0, 1.0, 1.0])
    assert np.array_equal(found.effect, [0.0, 0.0, 0.0])
    assert np.array_equal([found.low, found.high], np.zeros((2, 3)))
    assert not found.exact.any()


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_the_same_difference_on_every_seed_gives_the_sign_flips_p(n: int) -> None:
    noise = 1e-17 * np.arange(n)
    found = paired_tests(np.stack([np.full(n, 0.1), (0.3 + noise) - 0.1]))
    assert found.exact.all()
    assert np.array_equal(found.p, [2.0 ** (1 - n)] * 2)
    assert found.low == pytest.approx([0.1, 0.2], rel=1e-14)
    assert np.array_equal(found.low, found.high)
    assert np.isnan(found.effect).all()


def test_below_two_seeds_there_is_no_test() -> None:
    found = paired_tests([[0.4, NAN], [NAN, NAN]])
    assert np.isnan([found.p, found.low, found.high, found.effect]).all()
    assert found.estimate[0] == 0.4
    assert math.isnan(found.estimate[1])
    assert list(found.n) == [1, 0]
    assert not found.exact.any()
    assert paired_tests(np.empty((3, 0))).n.tolist() == [0, 0, 0]
    assert len(paired_tests(np.empty((0, 5))).p) == 0


def test_p_is_never_zero() -> None:
    # t is 1e10 with 59 degrees of freedom: scipy says 0.
    far = 1.0 + 1e-9 * np.random.default_rng(3).normal(size=(1, 60))
    assert stats.ttest_1samp(far[0], 0.0).pvalue == 0.0
    assert paired_tests(far).p[0] == SMALLEST_P > 0.0


@pytest.mark.parametrize("n", [3, 5, 10, 30])
def test_the_effect_is_unbiased(n: int) -> None:
    """That is what the correction is for: without it, three seeds show an effect 1.8 times too large."""
    values = np.random.default_rng(n).normal(0.5, 1.0, size=(200_000, n))
    found = paired_tests(values)
    spread = found.effect.std() / math.sqrt(len(found.effect))
    assert found.effect.mean() == pytest.approx(0.5, abs=max(5 * spread, 0.005))


def test_the_correction_is_hedges_own() -> None:
    m = np.arange(2, 200)
    exact = [math.exp(math.lgamma(x / 2) - math.lgamma((x - 1) / 2)) / math.sqrt(x / 2) for x in m]
    line = np.array([0.0, 1.0])
    for df, factor in zip(m, exact, strict=True):
        values = np.resize(line, df + 1)
        raw = values.mean() / values.std(ddof=1)
        assert paired_tests(values[None]).effect[0] == pytest.approx(factor * raw, rel=1e-12)
    # His approximation, which most texts print.
    assert exact == pytest.approx(list(1 - 3 / (4 * m - 1)), rel=0.015)
    assert np.isnan(paired_tests([[0.1, 0.3]]).effect[0])


def test_intervals_of_cells() -> None:
    found = t_interval([[0.1, 0.2, 0.4], [0.5, NAN, NAN], [0.2, 0.2, 0.2], [NAN, NAN, NAN], [0.1, NAN, 0.3]])
    peer = stats.t.interval(0.95, 2, loc=0.7 / 3, scale=stats.sem([0.1, 0.2, 0.4]))
    assert [found.low[0], found.high[0]] == pytest.approx(list(peer))
    assert found.sd[0] == pytest.approx(np.std([0.1, 0.2, 0.4], ddof=1))
    assert found.mean[1] == 0.5
    assert np.isnan([found.low[1], found.high[1], found.sd[1], found.mean[3], found.low[3]]).all()
    assert [found.mean[2], found.low[2], found.high[2], found.sd[2]] == [0.2, 0.2, 0.2, 0.0]
    assert list(found.n) == [3, 1, 3, 0, 2]
    assert found.mean[4] == pytest.approx(0.2)


def test_a_hundred_thousand_pairs_at_once() -> None:
    values = np.random.default_rng(0).normal(size=(100_000, 10))
    start = time.process_time()
    paired_tests(values)
    assert time.process_time() - start < 5.0
