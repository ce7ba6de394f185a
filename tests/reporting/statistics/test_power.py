"""What a comparison can find: equal to statsmodels, and true of our own test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from docs.planted.report import filled
from docs.statistics.power import PAGE, level_beside, table
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference, holm, paired_tests, smallest_p
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


def test_a_difference_that_all_seeds_agree_on_has_the_sign_flips_limit() -> None:
    """The t-test itself has no least p, its fallback without spread has."""
    found = paired_tests(np.full((1, 5), 0.2))
    assert found.p[0] == smallest_p(5, sign_flip=True)


def test_the_level_of_one_more_test_of_a_family_is_that_of_holm() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        others = rng.uniform(0.0, 0.1, size=rng.integers(1, 12)) ** 2
        level = level_beside(others)
        p = np.array([0.5 * level, 0.999 * level, 1.001 * level, rng.uniform(0.0, 0.05)])
        found = [holm(np.append(others, one))[-1] <= 0.05 for one in p]
        assert found == (p <= level).tolist()


def test_the_page_shows_the_published_power() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, {"power": table()}) == page
