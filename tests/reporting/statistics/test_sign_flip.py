"""The exact sign flip equals scipy's enumeration and a plain loop over all patterns."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from genrec_unlearn_bench.reporting.statistics.paired import MOST_SEEDS, sign_flip, smallest_p

NAN = float("nan")
# Eighths add up without rounding, so that ties are ties for the loop as well.
EIGHTHS = st.lists(st.integers(-16, 16).map(lambda x: x / 8), min_size=1, max_size=9)


@settings(deadline=None)
@given(EIGHTHS)
def test_equals_the_loop_over_all_patterns(differences: list[float]) -> None:
    values = np.array(differences)
    sums = [abs(values @ np.array(signs)) for signs in product((1, -1), repeat=len(values))]
    assert sign_flip([differences])[0] == np.mean([total >= abs(values.sum()) for total in sums])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 10))
def test_equals_scipy(seed: int, n: int) -> None:
    values = np.random.default_rng(seed).normal(0.5, 1.0, size=n)
    peer = stats.permutation_test((values,), np.mean, permutation_type="samples", vectorized=True, n_resamples=np.inf)
    assert sign_flip(values[None])[0] == pytest.approx(peer.pvalue)


def test_ties_that_rounding_hides_are_counted() -> None:
    # .1 + .2 - .3 is 5.6e-17 and not 0; with tenths, flips tie that floating point tells apart.
    tenths = np.array([0.1, 0.2, 0.3, -0.6, 0.4, 0.2, 0.1])
    assert sign_flip(tenths[None])[0] == sign_flip(np.round(tenths * 10)[None])[0]


def test_missing_seeds_change_nothing() -> None:
    values = np.random.default_rng(0).normal(0.4, 1.0, size=6)
    with_gaps = np.array([NAN, *values[:3], NAN, *values[3:], NAN])
    assert sign_flip(with_gaps[None])[0] == sign_flip(values[None])[0]


def test_edges() -> None:
    found = sign_flip([[0.0, 0.0, 0.0], [NAN, NAN, NAN], [0.5, NAN, NAN], [0.5, 0.5, 0.5], [1e-17, -1e-17, 0.0]])
    assert found[[0, 2, 3, 4]] == pytest.approx([1.0, 1.0, 0.25, 1.0])
    assert np.isnan(found[1])
    assert sign_flip(np.empty((0, 5))).shape == (0,)
    assert sign_flip(np.empty((2, 0))).shape == (2,)


def test_more_seeds_than_can_be_enumerated_have_no_p_and_gaps_are_not_seeds() -> None:
    many = np.full((2, MOST_SEEDS + 4), NAN)
    many[0] = 1.0
    many[1, ::3] = [0.5, 0.4, -0.1, 0.3, 0.2, 0.6, 0.1]
    found = sign_flip(many)
    assert np.isnan(found[0])
    assert found[1] == sign_flip(many[1, ::3][None])[0]


@pytest.mark.parametrize("n", [*range(2, 11), MOST_SEEDS])
def test_all_wins_reach_the_smallest_p_and_nothing_goes_below(n: int) -> None:
    wins = np.random.default_rng(n).uniform(0.1, 1.0, size=n)
    assert sign_flip(wins[None])[0] == smallest_p(n, sign_flip=True) == 2.0 ** (1 - n)
    mixed = np.random.default_rng(n).normal(size=(50, n))
    assert sign_flip(mixed).min() >= smallest_p(n, sign_flip=True)


def test_smallest_p() -> None:
    assert smallest_p(5, sign_flip=True) == 0.0625
    assert smallest_p(6, sign_flip=True) < 0.05
    assert 0.0 < smallest_p(2) < 1e-300
    assert smallest_p(1) == smallest_p(1, sign_flip=True) == smallest_p(0) == 1.0
