"""Distances between lists: bounds, identities, and the textbook value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.list_distance import jensen_shannon, list_change

from .planted import lists


def ranking(chances: list[dict[int, float]], k: int) -> Ranking:
    rows = [sorted(row, key=lambda item: -row[item]) for row in chances]
    logs = [[float(np.log(row[item])) for item in order] for row, order in zip(chances, rows, strict=True)]
    return lists(rows, k, logs)


DISTRIBUTION = st.dictionaries(st.integers(0, 15), st.floats(1e-6, 1.0), max_size=8)


def scaled(weights: dict[int, float], mass: float) -> dict[int, float]:
    total = sum(weights.values()) or 1.0
    return {item: weight / total * mass for item, weight in weights.items()}


@settings(max_examples=150, deadline=None)
@given(DISTRIBUTION, DISTRIBUTION, st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_scipy_says_the_same_and_it_is_symmetric(
    left: dict[int, float], right: dict[int, float], mass: float, other: float
) -> None:
    a, b = scaled(left, mass), scaled(right, other)
    first, second = ranking([a], 8), ranking([b], 8)
    dense = np.zeros((2, 17))
    for row, chances in enumerate((a, b)):
        for item, chance in chances.items():
            dense[row, item] = chance
        dense[row, 16] = max(0.0, 1 - sum(chances.values()))
    value = float(jensen_shannon(first, second)[0])
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(float(jensenshannon(dense[0], dense[1], base=2)) ** 2, abs=2e-6)
    assert value == pytest.approx(float(jensen_shannon(second, first)[0]), abs=1e-12)
    assert jensen_shannon(first, first)[0] == 0.0


def test_bounds_are_reached() -> None:
    same, other = ranking([{0: 0.5, 1: 0.5}], 3), ranking([{2: 0.25, 3: 0.75}], 3)
    assert jensen_shannon(same, other)[0] == pytest.approx(1.0, abs=1e-7)
    # The rest is common to both: half of the mass cannot differ.
    half, elsewhere = ranking([{0: 0.5}], 3), ranking([{1: 0.5}], 3)
    assert jensen_shannon(half, elsewhere)[0] == pytest.approx(0.5, abs=1e-7)
    empty = lists([[]], 3)
    assert jensen_shannon(empty, empty)[0] == 0.0
    assert jensen_shannon(empty, same)[0] == pytest.approx(1.0, abs=1e-7)


def test_items_that_share_a_sid_do_not_exceed_one() -> None:
    # Three items of one SID, each with its probability 0.9.
    shared, single = ranking([{0: 0.9, 1: 0.9, 2: 0.9}], 3), ranking([{0: 0.9}], 3)
    assert 0.0 < jensen_shannon(shared, single)[0] < 1.0
    assert jensen_shannon(shared, shared)[0] == 0.0


def test_list_change() -> None:
    first = lists([[0, 1, 2, 3], [0, 1], [], [], [0, 1, 2, 3]], 4)
    second = lists([[3, 2, 1, 0], [2, 1], [], [5], [0, 9]], 4)
    np.testing.assert_allclose(list_change(first, second), [0, 0.5, 0, 1, 0.75])
    np.testing.assert_allclose(list_change(first, second, k=2), [1, 0.5, 0, 1, 0.5])


def test_chunks_do_not_matter() -> None:
    generator = np.random.default_rng(1)
    items = np.argsort(generator.random((1200, 30)), axis=1)[:, :20].astype(np.int64)
    chances = np.log(generator.dirichlet(np.ones(21), size=1200)[:, :20]).astype(np.float32)
    first, second = Ranking(items, chances), Ranking(items[::-1].copy(), chances)
    whole = jensen_shannon(first, second)
    for row in (0, 511, 512, 1199):
        alone = jensen_shannon(
            Ranking(first.items[[row]], first.log_probs[[row]]), Ranking(second.items[[row]], second.log_probs[[row]])
        )
        assert alone[0] == whole[row]
