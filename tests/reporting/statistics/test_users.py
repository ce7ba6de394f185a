"""The users' test: reproducible, exact where it can be checked, and honest where a user has several rows."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from genrec_unlearn_bench.reporting.statistics.paired import sign_flip
from genrec_unlearn_bench.reporting.statistics.users import compare_users
from genrec_unlearn_bench.seeding import numpy_generator
from tests.reporting.statistics.null_worlds import band, user_table


def hits(seed: int, rows: int = 3_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    users = np.sort(generator.integers(0, rows // 2, size=rows))
    first, second = (generator.random((2, rows)) < [[0.11], [0.10]]).astype(np.float64)
    return first, second, users


def test_the_same_seed_gives_the_same_p_and_another_one_nearly() -> None:
    first, second, users = hits(0)
    found = [compare_users(first, second, users, seed=0, permutations=2_000) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    others = {compare_users(first, second, users, seed=seed, permutations=2_000).p for seed in range(1, 6)}
    assert len(others) > 1
    assert all(abs(p - found[0].p) < 0.06 for p in others)


def test_the_p_of_a_fixed_table_stays_what_it_was() -> None:
    """A change of this number is a change of every published p-value: raise the statistics' version."""
    first, second, users = hits(0)
    assert compare_users(first, second, users, seed=0, permutations=2_000).p == 509 / 2_001


def test_names_and_order_of_the_users_do_not_matter_to_estimate_and_interval() -> None:
    first, second, users = hits(2)
    plain = compare_users(first, second, users, seed=0, permutations=100)
    order = np.random.default_rng(0).permutation(len(users))
    named = np.array([f"user {user}" for user in users])
    other = compare_users(first[order], second[order], named[order], seed=0, permutations=100)
    assert [other.estimate, other.low, other.high] == pytest.approx([plain.estimate, plain.low, plain.high])
    assert (other.rows, other.users) == (plain.rows, plain.users)


def test_swapping_the_checkpoints_turns_the_sign_only() -> None:
    first, second, users = hits(3)
    one = compare_users(first, second, users, seed=0, permutations=1_000)
    other = compare_users(second, first, users, seed=0, permutations=1_000)
    assert one.p == other.p
    assert (one.estimate, one.low, one.high) == pytest.approx((-other.estimate, -other.high, -other.low))


def test_p_is_never_zero_and_c_plus_one_over_b_plus_one() -> None:
    users = np.arange(500)
    found = compare_users(np.ones(500), np.zeros(500), users, seed=0, permutations=999)
    assert found.p == 1 / 1000
    same = compare_users(np.ones(500), np.ones(500), users, seed=0, permutations=999)
    assert (same.p, same.estimate, same.low, same.high) == (1.0, 0.0, 0.0, 0.0)


def test_few_users_come_near_the_exact_enumeration() -> None:
    sums = np.array([0.8, -0.1, 0.5, 0.4, -0.3, 0.9, 0.2, 0.1])
    exact = float(sign_flip(sums[None])[0])
    permutations = 50_000
    found = compare_users(sums, np.zeros(8), np.arange(8), seed=0, permutations=permutations)
    low, high = band(exact, permutations)
    assert low <= found.p <= high


def test_one_row_a_user_gives_students_interval() -> None:
    values = np.random.default_rng(4).normal(0.1, 1.0, size=300)
    found = compare_users(values, np.zeros(300), np.arange(300), seed=0, permutations=99)
    peer = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((peer.low, peer.high))


def test_the_interval_equals_cluster_robust_regression() -> None:
    import statsmodels.api as sm

    differences, users = user_table(np.random.default_rng(6), users=80, rows=6, shared=0.5)
    found = compare_users(differences, np.zeros(len(users)), users, seed=0, permutations=99)
    fit = sm.OLS(differences, np.ones(len(users))).fit(cov_type="cluster", cov_kwds={"groups": users}, use_t=True)
    assert (found.low, found.high) == pytest.approx(tuple(fit.conf_int(0.05)[0]), rel=1e-6)


def test_rows_that_were_not_measured_are_left_out_and_nothing_is_made_of_nothing() -> None:
    found = compare_users([1.0, np.nan, 0.0], [0.0, 1.0, np.nan], [7, 7, 8], seed=0, permutations=9)
    assert (found.rows, found.users, found.estimate, found.p) == (1, 1, 1.0, 1.0)
    assert np.isnan([found.low, found.high]).all()
    empty = compare_users([], [], [], seed=0, permutations=9)
    assert np.isnan([empty.p, empty.estimate, empty.low, empty.high]).all()
    assert empty.users == 0


def test_rows_of_a_user_that_agree_keep_the_level_and_without_the_users_it_is_lost() -> None:
    repeats, generator = 1_500, numpy_generator(0, "clustered users")
    wrong, unclustered, covered = 0, 0, 0
    for repeat in range(repeats):
        differences, users = user_table(generator, users=120, rows=8, shared=0.5)
        zeros = np.zeros(len(users))
        found = compare_users(differences, zeros, users, seed=repeat, permutations=199)
        wrong += found.p <= 0.05
        covered += found.low <= 0.0 <= found.high
        unclustered += compare_users(differences, zeros, np.arange(len(users)), seed=repeat, permutations=199).p <= 0.05
    low, high = band(0.05, repeats)
    assert low <= wrong / repeats <= high
    assert band(0.95, repeats)[0] <= covered / repeats <= band(0.95, repeats)[1]
    assert unclustered / repeats > 0.15


def test_a_large_test_group_takes_seconds() -> None:
    generator = np.random.default_rng(0)
    start = time.process_time()
    compare_users(generator.random(22_000), generator.random(22_000), np.arange(22_000), seed=0)
    assert time.process_time() - start < 10.0
