from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genrec_unlearn_bench.sids.overlap import level_overlaps, overlap, overlap_lift, prefix_sharing, token_coverage
from genrec_unlearn_bench.sids.table import SidTable


@st.composite
def divided(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n, levels = draw(st.integers(2, 24)), draw(st.integers(1, 4))
    codes = draw(arrays(np.int64, (n, levels), elements=st.integers(-1, 4)))
    items = np.zeros(n, dtype=bool)
    items[draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n - 1, unique=True))] = True
    return codes, items


@given(divided())
def test_frequencies_give_the_pairwise_definition(case: tuple[np.ndarray, np.ndarray]) -> None:
    codes, items = case
    pairs = [(i, j) for i in np.flatnonzero(items) for j in np.flatnonzero(~items)]
    expected = [np.mean([codes[i, level] == codes[j, level] >= 0 for i, j in pairs]) for level in range(codes.shape[1])]
    np.testing.assert_allclose(level_overlaps(codes, items), expected, atol=1e-12)


def test_the_ordinal_level_is_kept_out_of_the_measurement() -> None:
    table = SidTable(np.array([[0, 1, 0], [0, 0, 0], [1, 1, 0], [2, 2, 0]]), (3, 3, 2), 2)
    report = overlap(table, np.array([True, False, False, False]))
    assert report.per_level == pytest.approx((1 / 3, 1 / 3, 1.0))
    assert report.quantised == pytest.approx(1 / 3)
    assert np.mean(report.per_level) == pytest.approx(5 / 9)


@pytest.mark.parametrize("items", [np.zeros(3, bool), np.ones(3, bool)])
def test_a_concept_with_an_empty_side_is_refused(items: np.ndarray) -> None:
    with pytest.raises(ValueError, match="both sides"):
        level_overlaps(np.zeros((3, 2), np.int64), items)


@settings(max_examples=20)
@given(arrays(np.int64, (7, 2), elements=st.integers(-1, 2)), st.integers(1, 6))
def test_expected_overlap_is_the_mean_over_every_set(codes: np.ndarray, size: int) -> None:
    values = []
    for chosen in combinations(range(7), size):
        items = np.zeros(7, dtype=bool)
        items[list(chosen)] = True
        values.append(level_overlaps(codes, items).mean())
    # The lift is that of the last set.
    assert overlap_lift(codes, items, draws=2, seed=0).lift * np.mean(values) == pytest.approx(values[-1])


def test_random_sets_lie_inside_their_interval_and_planted_ones_outside() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (1500, 3))
    inside = 0
    for seed in range(40):
        items = np.zeros(1500, dtype=bool)
        items[np.random.default_rng(seed).choice(1500, 75, replace=False)] = True
        report = overlap_lift(codes, items, draws=200, seed=seed)
        inside += report.null_low <= report.lift <= report.null_high
        assert report.null_low < 1 < report.null_high
    assert 33 <= inside <= 40
    own = codes.copy()
    own[:75, 0] = 15
    own[75:, 0] %= 15
    marked = np.arange(1500) < 75
    apart = overlap_lift(own, marked, draws=200, seed=0)
    assert apart.lift < apart.null_low


def test_draws_are_seeded_and_do_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(0).integers(-1, 5, (60, 3))
    items = np.arange(60) < 9
    one = overlap_lift(codes, items, draws=50, seed=3)
    monkeypatch.setattr("genrec_unlearn_bench.sids.overlap._CELLS", 130)
    assert overlap_lift(codes, items, draws=50, seed=3) == one
    assert overlap_lift(codes, items, draws=50, seed=4) != one


def test_nothing_shared_by_anyone_has_no_lift_to_speak_of() -> None:
    assert overlap_lift(np.arange(6)[:, None], np.arange(6) < 2, draws=5, seed=0).lift == 1.0


def test_prefix_sharing_by_hand() -> None:
    codes = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 2], [1, 1, 1]])
    items = np.array([True, True, True, False, False])
    assert prefix_sharing(codes, items, depth=1) == 1.0
    assert prefix_sharing(codes, items) == pytest.approx(1 / 3)
    assert prefix_sharing(codes, items, depth=3) == 0.0


def test_token_coverage_by_hand() -> None:
    codes = np.array([[0, 0], [0, 1], [1, -1], [0, 0], [2, 5]])
    assert token_coverage(codes, np.array([True, True, True, False, False])) == (0.5, 0.5)
