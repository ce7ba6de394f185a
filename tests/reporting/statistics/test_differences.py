"""What counts as a difference, once for all tests."""

from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.reporting.statistics.paired import NO_DIFFERENCE, SMALLEST_P, clean, never_zero


def test_rounding_is_zero_and_what_is_not_finite_was_not_measured() -> None:
    found = clean([0.1 + 0.2 - 0.3, -NO_DIFFERENCE, 2e-12, np.inf, -np.inf, np.nan, 0.5])
    assert found[:3].tolist() == [0.0, 0.0, 2e-12]
    assert np.isnan(found[3:6]).all()
    assert found[6] == 0.5


def test_the_given_numbers_stay_as_they_are() -> None:
    given = np.array([1e-15, np.inf])
    clean(given)
    assert given.tolist() == [1e-15, np.inf]


def test_p_stays_between_the_smallest_and_one() -> None:
    found = never_zero([0.0, 0.5, 1.0 + 1e-16, np.nan])
    assert found[:3].tolist() == [SMALLEST_P, 0.5, 1.0]
    assert np.isnan(found[3])
