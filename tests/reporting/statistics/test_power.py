"""What a comparison can find: equal to statsmodels, and true of our own test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.statistics.paired import PairedTest, paired_tests
from genrec_unlearn_bench.reporting.statistics.power import detectable_difference, smallest_attainable, underpowered
from genrec_unlearn_bench.seeding import numpy_generator
from tests.reporting.statistics.null_worlds import band


@pytest.mark.parametrize("n", [3, 5, 10, 30])
@pytest.mark.parametrize("alpha", [0.05, 0.05 / 14])
@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_equals_statsmodels(n: int, alpha: float, power: float) -> None:
    shift = detectable_difference(1.0, n, alpha, power=power)
    peer = TTestPower().power(shift, n, alpha)
    if np.isnan(peer):
        # The noncentral t of scipy, which statsmodels asks, knows no answer that far out; the test below does.
        assert (n, alpha) != (10, 0.05)
        return
    assert peer == pytest.approx(power, abs=1e-6)
    assert detectable_difference(0.004, n, alpha, power=power) == pytest.approx(0.004 * shift)


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (2, 0.05 / 14), (3, 0.05), (3, 0.05 / 14), (5, 0.05), (10, 0.01)])
def test_our_test_finds_that_difference_that_often(n: int, alpha: float) -> None:
    repeats = 20_000
    shift = detectable_difference(1.0, n, alpha)
    values = numpy_generator(0, "power", n).normal(shift, 1.0, size=(repeats, n))
    low, high = band(0.8, repeats)
    assert low <= (paired_tests(values).p <= alpha).mean() <= high


def test_edges() -> None:
    assert math.isnan(detectable_difference(0.1, 1))
    assert math.isnan(detectable_difference(float("nan"), 5))
    assert detectable_difference(0.0, 5) == 0.0
    for alpha, power in [(0.05, 0.01), (0.05, 1.0), (0.0, 0.8)]:
        with pytest.raises(UsageError, match="between alpha and 1"):
            detectable_difference(0.1, 5, alpha, power=power)


def test_the_smallest_p_of_a_family() -> None:
    assert smallest_attainable(5, 1, PairedTest.SIGN_FLIP) == 0.0625
    assert smallest_attainable(10, 14, PairedTest.SIGN_FLIP) == pytest.approx(14 / 512)
    assert smallest_attainable(3, 14, PairedTest.SIGN_FLIP) == 1.0
    assert 0.0 < smallest_attainable(2, 1_000) < 1e-300


@pytest.mark.parametrize(
    ("n", "tests", "test", "expected"),
    [
        (1, 1, PairedTest.T, True),
        (2, 1, PairedTest.T, False),
        (5, 1, PairedTest.SIGN_FLIP, True),
        (6, 1, PairedTest.SIGN_FLIP, False),
        (6, 2, PairedTest.SIGN_FLIP, True),
        (10, 14, PairedTest.SIGN_FLIP, False),
        (0, 1, PairedTest.T, True),
    ],
)
def test_underpowered(n: int, tests: int, test: PairedTest, expected: bool) -> None:
    assert underpowered(n, tests, test) is expected


def test_a_difference_that_all_seeds_agree_on_has_the_sign_flips_limit() -> None:
    """The t-test itself has no least p, its fallback without spread has."""
    found = paired_tests(np.full((1, 5), 0.2))
    assert found.p[0] == smallest_attainable(5, 1, PairedTest.SIGN_FLIP)
