"""Equivalence to retraining equals statsmodels' TOST, and no verdict says more than was shown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_paired

from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL, Equivalence, Verdict, margin, tosts
from genrec_unlearn_bench.seeding import numpy_generator
from tests.reporting.statistics.null_worlds import band

NAN = float("nan")


def single(differences: object, room: float | None) -> Equivalence:
    return tosts(np.asarray(differences, dtype=np.float64).reshape(1, -1), room)[0]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.floats(0.01, 2.0), st.floats(-1.0, 1.0))
def test_equals_statsmodels_and_the_interval_says_the_same(seed: int, n: int, room: float, shift: float) -> None:
    first, second = np.random.default_rng(seed).normal([[shift], [0.0]], 0.3, size=(2, n))
    found = single(first - second, room)
    peer = ttost_paired(first, second, -room, room)[0]
    assert found.p == pytest.approx(peer, rel=1e-8)
    inside = -room < found.low90 and found.high90 < room
    assert (found.verdict is Verdict.EQUIVALENT) == inside == (found.p < LEVEL)
    assert found.estimate == pytest.approx((first - second).mean())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 10), st.floats(0.0, 1.0))
def test_verdicts_exclude_each_other_and_both_sides_are_alike(seed: int, n: int, room: float) -> None:
    differences = np.random.default_rng(seed).normal(0.3, 0.4, size=n)
    found, mirrored = single(differences, room), single(-differences, room)
    assert found.verdict is mirrored.verdict
    assert found.p == pytest.approx(mirrored.p)
    assert found.low90 == pytest.approx(-mirrored.high90)
    if found.verdict is Verdict.DIFFERENT:
        assert found.low90 > room or found.high90 < -room
    assert found.verdict in {Verdict.EQUIVALENT, Verdict.NOT_SHOWN, Verdict.DIFFERENT}


def test_not_significant_is_not_equivalent() -> None:
    """Noise hides any difference; that is no evidence of forgetting."""
    noisy = single([0.30, -0.25, 0.05, -0.20, 0.15], 0.05)
    assert noisy.low90 < 0 < noisy.high90
    assert noisy.verdict is Verdict.NOT_SHOWN


def test_each_verdict() -> None:
    close, far = np.array([0.01, -0.01, 0.0, 0.012, -0.008]), np.array([0.31, 0.29, 0.30, 0.312, 0.292])
    assert single(close, 0.05).verdict is Verdict.EQUIVALENT
    assert single(far, 0.05).verdict is Verdict.DIFFERENT
    assert single(-far, 0.05).verdict is Verdict.DIFFERENT
    # Different from retraining, surely, and still inside the margin: the margin decides.
    small = single([0.010, 0.011, 0.009, 0.010, 0.0105], 0.05)
    assert small.low90 > 0
    assert small.verdict is Verdict.EQUIVALENT
    assert single(np.zeros(5), 0.05).verdict is Verdict.IDENTICAL
    assert single([1e-17, -1e-17, 0.0], 0.0).verdict is Verdict.IDENTICAL


@pytest.mark.parametrize("room", [None, 0.0, 0.05])
def test_too_few_seeds_show_nothing(room: float | None) -> None:
    for differences in ([], [0.0], [0.3], [NAN, 0.3, NAN], [NAN, NAN]):
        found = single(differences, room)
        assert found.verdict is Verdict.UNDERPOWERED
        assert math.isnan(found.p)
        assert math.isnan(found.low90)


def test_without_a_margin_only_identity_can_be_seen() -> None:
    found = single([0.1, 0.2, 0.15], None)
    assert found.verdict is Verdict.UNDERPOWERED
    assert math.isnan(found.p)
    assert not math.isnan(found.low90)
    assert single(np.zeros(3), None).verdict is Verdict.IDENTICAL


def test_a_margin_of_nothing_leaves_nothing_to_be_equivalent_within() -> None:
    assert single([0.001, -0.001, 0.0, 0.001, 0.0], 0.0).verdict is Verdict.NOT_SHOWN
    assert single([0.30, 0.31, 0.29, 0.30, 0.31], 0.0).verdict is Verdict.DIFFERENT
    assert single([0.001, -0.001, 0.0, 0.001, 0.0], 0.0).p > 0.5


@pytest.mark.parametrize(
    ("n", "difference", "verdict"),
    [
        (4, 0.01, Verdict.NOT_SHOWN),
        (5, 0.01, Verdict.EQUIVALENT),
        (5, 0.05, Verdict.NOT_SHOWN),
        (5, 0.20, Verdict.NOT_SHOWN),
        (6, 0.20, Verdict.DIFFERENT),
        (6, -0.20, Verdict.DIFFERENT),
        (6, -0.01, Verdict.EQUIVALENT),
    ],
)
def test_without_spread_the_signs_decide(n: int, difference: float, verdict: Verdict) -> None:
    found = single(np.full(n, difference), 0.05)
    assert found.verdict is verdict
    assert found.low90 == found.high90 == difference
    assert 0.0 < found.p <= 1.0
    assert found.p == (2.0**-n if abs(difference) < 0.05 else 1.0)


def test_the_margin_is_a_quantile_of_what_retrained_seeds_differ_by() -> None:
    values = [0.10, 0.13, 0.11, 0.18]
    pairs = [0.03, 0.01, 0.08, 0.02, 0.05, 0.07]
    assert margin(values) == pytest.approx(np.quantile(pairs, 0.95))
    assert margin(values, quantile=0.5) == pytest.approx(np.median(pairs))
    assert margin([*values, NAN]) == margin(values)
    assert margin([0.0, 0.0, 0.0]) == 0.0
    assert margin([0.1 + 0.2, 0.3, 0.3]) == 0.0
    for few in ([], [0.1], [0.1, 0.2], [0.1, NAN, 0.3]):
        assert margin(few) is None


def test_one_hit_more_than_none_is_within_the_resolution_of_the_test_set() -> None:
    """Four retrained models that never name a forget item, and a method that does once, of 362 examples."""
    retrained, method = np.zeros(4), np.array([0.0, 0.0, 1 / 362, 0.0])
    assert single(method - retrained, margin(retrained)).verdict is Verdict.NOT_SHOWN
    least = margin(retrained, resolution=1 / 362)
    assert least == 1 / 362
    assert single(method - retrained, least).verdict is Verdict.EQUIVALENT
    assert single(np.array([7, 6, 9, 8]) / 362, least).verdict is Verdict.DIFFERENT
    assert margin([0.1, 0.2, 0.3], resolution=0.01) == margin([0.1, 0.2, 0.3])
    assert margin([0.1, 0.2], resolution=0.01) is None


def test_the_margin_of_few_seeds_is_too_small_and_never_makes_equivalence_easier_on_average() -> None:
    generator = numpy_generator(0, "margins")
    true = 1.959964 * math.sqrt(2)
    shares = [
        np.mean([margin(row) for row in generator.normal(size=(1_500, seeds))]) / true for seeds in (3, 5, 10, 20)
    ]
    assert shares == sorted(shares)
    assert shares == pytest.approx([0.59, 0.78, 0.91, 0.97], abs=0.02)


@pytest.mark.parametrize("seeds", [3, 5])
def test_at_the_protocols_five_seeds_a_method_off_by_the_true_margin_is_seldom_called_equivalent(seeds: int) -> None:
    repeats, generator = 2_000, numpy_generator(0, "estimated margins", seeds)
    oracle = generator.normal(size=(repeats, seeds))
    method = generator.normal(1.959964 * math.sqrt(2), 1.0, size=(repeats, seeds))
    wrong = np.mean(
        [
            single(ours - theirs, margin(theirs)).verdict is Verdict.EQUIVALENT
            for ours, theirs in zip(method, oracle, strict=True)
        ]
    )
    assert wrong <= band(LEVEL, repeats)[1]


def test_many_at_once_are_the_same_as_one_by_one() -> None:
    values = np.random.default_rng(0).normal(0.1, 0.2, size=(60, 6))
    values[np.random.default_rng(1).random(values.shape) < 0.3] = NAN
    values[:3] = [[0.0] * 6, [0.2] * 6, [NAN] * 6]
    for room in (None, 0.0, 0.3):
        together = tosts(values, room)
        for found, line in zip(together, values, strict=True):
            alone = single(line[np.isfinite(line)], room)
            assert repr(alone) == repr(found)
    assert tosts(np.empty((0, 5)), 0.1) == ()
