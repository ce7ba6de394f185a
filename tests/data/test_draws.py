from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from genrec_unlearn_bench.data import draws
from genrec_unlearn_bench.data.draws import Target, draw_stratified, draw_subset, rounded, uniform_subsets
from genrec_unlearn_bench.data.examples import among, distinct
from genrec_unlearn_bench.seeding import numpy_generator


def test_subsets_are_uniform() -> None:
    found = np.sort(uniform_subsets(6, 3, 20_000, numpy_generator(1)), axis=1)
    counts = [int((found == np.asarray(subset)).all(axis=1).sum()) for subset in itertools.combinations(range(6), 3)]
    assert sum(counts) == 20_000
    assert stats.chisquare(counts).pvalue > 1e-3


def test_accepted_draws_are_uniform_among_those_that_fit() -> None:
    weights = np.asarray([1, 2, 3, 4, 5, 6], dtype=np.int64)
    fitting = [pair for pair in itertools.combinations(range(6), 2) if 6 <= weights[list(pair)].sum() <= 8]
    counts = dict.fromkeys(fitting, 0)
    for seed in range(3000):
        draw = draw_subset(weights, 2, Target(21, 7 / 21, 1 / 21, 1000), numpy_generator(seed))
        assert draw.within
        counts[tuple(draw.chosen.tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_the_batch_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.arange(1, 400, dtype=np.int64)

    def drawn() -> draws.Draw:
        total = int(weights.sum())
        return draw_subset(weights, 20, Target(total, 0.09, 1e-4, 5000), numpy_generator(7))

    large = drawn()
    monkeypatch.setattr(draws, "_CELLS", 1)
    small = drawn()
    assert large.draws == small.draws > 1
    assert large.chosen.tolist() == small.chosen.tolist()


def test_the_nearest_draw_is_taken_and_flagged_where_none_fits() -> None:
    weights = np.asarray([1, 1, 1, 50], dtype=np.int64)
    draw = draw_subset(weights, 1, Target(100, 0.1, 0.01, 50), numpy_generator(0))
    assert not draw.within
    assert draw.draws == 50
    assert draw.chosen[0] < 3, "1 % is nearer to 10 % than 50 % is"


@pytest.mark.parametrize("weight", [9, 11])
def test_the_bounds_of_the_tolerance_belong_to_it(weight: int) -> None:
    draw = draw_subset(np.asarray([weight]), 1, Target(100, 0.10, 0.01, 1), numpy_generator(0))
    assert draw.within


def test_rounding_is_half_up_and_one_at_least() -> None:
    assert [rounded(0.05, count) for count in (1, 9, 10, 29, 30, 40, 1352)] == [1, 1, 1, 1, 2, 2, 68]


def test_stratified_draws_hit_the_share_and_mirror_the_catalogue() -> None:
    generator = np.random.default_rng(3)
    weights = np.sort(generator.zipf(1.9, size=1000).clip(1, 60)).astype(np.int64)
    weights[:100] = 0
    total = int(weights.sum())
    taken = np.zeros(5)
    for seed in range(20):
        draw = draw_stratified(weights, 5, Target(total, 0.1, 0.01, 100), numpy_generator(seed))
        assert draw.within
        assert abs(weights[draw.chosen].sum() / total - 0.1) <= 0.01
        assert (weights[draw.chosen] > 0).all(), "an item without train targets cannot be forgotten"
        per_stratum = np.bincount((draw.chosen - 100) // 180, minlength=5)
        assert per_stratum.max() - per_stratum.min() <= 1, "every stratum gives equally many"
        taken += per_stratum
    assert taken.min() > 0


def test_stratified_draws_vary_with_the_seed_and_repeat_with_it() -> None:
    weights = np.arange(1, 201, dtype=np.int64)

    def drawn(seed: int) -> list[int]:
        draw = draw_stratified(weights, 5, Target(20_100, 0.1, 0.01, 9), numpy_generator(seed))
        return draw.chosen.tolist()

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


def test_stratified_draws_give_the_nearest_where_single_things_are_too_heavy() -> None:
    draw = draw_stratified(
        np.asarray([40, 30, 30]), 5, Target(100, 0.1, 0.01, 20), numpy_generator(0),
    )  # fmt: skip
    assert not draw.within
    assert draw.chosen.tolist() in ([1], [2])


def test_nothing_to_draw_from() -> None:
    draw = draw_stratified(np.zeros(3, dtype=np.int64), 2, Target(1, 0.1, 0.1, 3), numpy_generator(0))
    assert (draw.chosen.tolist(), draw.within) == ([], False)


codes = st.lists(st.integers(0, 30), max_size=60).map(lambda rows: np.array(rows, dtype=np.int64))


@given(codes, codes)
def test_among_is_isin(many: np.ndarray, few: np.ndarray) -> None:
    assert np.array_equal(among(many, np.sort(few)), np.isin(many, few))


@given(codes)
def test_distinct_is_unique(rows: np.ndarray) -> None:
    assert np.array_equal(distinct(rows), np.unique(rows))
